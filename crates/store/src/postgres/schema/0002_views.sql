-- Views for people and reports, with the names and columns of the seeds. Nothing here is written to
-- and nothing that Windrow does reads it.

-- Packed routes in words. Lengths are varints: seven bits a byte, the highest says that more
-- follow.
create function windrow.stages_of(route bytea) returns text[] language plpgsql immutable as $$
declare
    found text[] := '{}';
    at int := 0;
    number int;
    part int;
    shift int;
    -- What is read next: how many stages, a name, how many phases below, names of those.
    stages_left int := -1;
    below_left int := 0;
    reads_name boolean := false;
begin
    loop
        exit when stages_left = 0 and below_left = 0 and not reads_name;
        number := 0;
        shift := 0;
        loop
            part := get_byte(route, at);
            at := at + 1;
            number := number | ((part & 127) << shift);
            exit when part < 128;
            shift := shift + 7;
        end loop;
        if stages_left < 0 then
            stages_left := number;
            reads_name := number > 0;
        elsif reads_name then
            found := found || convert_from(substring(route from at + 1 for number), 'UTF8');
            at := at + number;
            stages_left := stages_left - 1;
            reads_name := false;
            below_left := -1;
        elsif below_left < 0 then
            below_left := number;
            reads_name := number = 0 and stages_left > 0;
        else
            at := at + number;
            below_left := below_left - 1;
            reads_name := below_left = 0 and stages_left > 0;
        end if;
    end loop;
    return found;
end
$$;

alter table windrow.routes
    add column stages text[] generated always as (windrow.stages_of(route)) stored;

-- The id of an item: its millisecond, its counter and the store's tag.
create function windrow.item_id(serial bigint, tag bigint) returns uuid
language sql immutable parallel safe as $$
    select encode(
        int8send((serial & ~65535::bigint) | 28672 | ((serial >> 4) & 4095))
        || int8send((-9223372036854775808) | ((serial & 15) << 58) | tag), 'hex')::uuid
$$;

create function windrow.item_id(serial bigint) returns uuid language sql stable as $$
    select windrow.item_id(item_id.serial, tag) from windrow.store
$$;

-- The way back: views have the serial too, by which an item is found at once.
create function windrow.serial_of(id uuid) returns bigint
language sql immutable parallel safe as $$
    select (('x' || substring(h from 1 for 12) || '0000')::bit(64)::bigint)
        | (('x' || substring(h from 14 for 3))::bit(12)::int << 4)
        | ((('x' || substring(h from 17 for 2))::bit(8)::int >> 2) & 15)
    from replace(id::text, '-', '') h
$$;

create function windrow.at(ms bigint) returns timestamptz
language sql immutable parallel safe as $$
    select timestamptz 'epoch' + ms * interval '1 millisecond'
$$;

-- Bytes as a text, else as hexadecimal digits.
create function windrow.as_text(bytes bytea) returns text language plpgsql immutable as $$
begin
    return convert_from(bytes, 'UTF8');
exception when character_not_in_repertoire or untranslatable_character then
    return encode(bytes, 'hex');
end
$$;

-- What is JSON as it is, another text as a JSON text.
create function windrow.as_json(said text) returns jsonb language plpgsql immutable as $$
begin
    return said::jsonb;
exception when others then
    return to_jsonb(said);
end
$$;

create function windrow.payload_json(payload bytea, blob bytea, blob_bytes bigint)
returns jsonb language sql immutable as $$
    select case when blob is null then windrow.as_json(windrow.as_text(payload))
                else jsonb_build_object('blob', encode(blob, 'hex'), 'bytes', blob_bytes) end
$$;

-- What is set for each lane.
create view windrow.policies as
    select l.no as lane, q.name as queue_name, st.name as stage, k.name as kind,
           least(coalesce((s.plain->'kinds'->>k.name)::bigint,
               case when s.plain->'stages'->st.name is null and k.name in ('page', 'chunk')
                         and coalesce((p.set->>'lease_ms')::bigint, 300000) = 300000
                    then 120000 else coalesce((p.set->>'lease_ms')::bigint, 300000) end),
               43200000) as lease_ms,
           coalesce((p.set->>'max_attempts')::int, 3) as max_attempts,
           coalesce((p.set->>'retry_first')::boolean, false) as retry_first,
           coalesce((p.set->>'ordered')::boolean, false) as ordered,
           case when (p.set->>'ordered')::boolean then 1
                else (p.set->>'group_limit')::bigint end as group_limit,
           p.set->>'resource' as resource,
           p.set->>'ahead_stage' as ahead_stage,
           (p.set->>'ahead_max')::bigint as ahead_max
    from windrow.lanes l
    join windrow.names q on q.no = l.queue
    join windrow.names st on st.no = l.stage_name
    join windrow.names k on k.no = l.kind
    left join windrow.settings s on s.queue = l.queue
    cross join lateral (
        select coalesce(s.plain->'stages'->st.name, s.plain->'defaults') as set) p;

-- Every item, live or ended. `doing` is the state of a live one; an ended one has 4 and more:
-- 4 completed, 5 failed, 6 cancelled, 7 skipped.
create view windrow.every as
    select i.serial, i.queue, i.tenant, i.lane, i.route, i.stage, i.priority,
           case when o.serial is null then i.state else 2::smallint end as doing, i.not_before,
           i.attempts + (case when o.serial is null or i.state = 2 then 0 else 1 end) as attempts,
           i.generation, i.skipped, i.parent, i.place_generation,
           i.ordinal, i.key, t.trail, o.worker, o.granted, o.renewed, o.expires,
           p.current, p.total, p.message, null::bigint as ended
    from windrow.items i
    left join windrow.trails t on t.serial = i.serial
    left join (select held.serial, e.worker, e.granted, e.renewed, e.expires
               from windrow.leases e, unnest(e.serials) held (serial)) o on o.serial = i.serial
    left join windrow.progress p on p.serial = i.serial
    union all
    select h.serial, h.queue, h.tenant, h.lane, h.route, h.stage, h.priority, h.ended + 4::smallint,
           0, h.attempts, h.generation, h.skipped, h.parent, h.place_generation,
           h.ordinal, h.key, h.trail, null, null, null, null, null, null, null,
           coalesce((h.trail->>'finished')::bigint, h.ended_s * 1000)
    from windrow.history h;

create function windrow.status_of(doing smallint) returns text
language sql immutable parallel safe as $$
    select case when doing < 2 then 'pending' when doing < 4 then 'processing'
                when doing = 4 then 'completed' when doing = 5 then 'failed'
                when doing = 6 then 'cancelled' else 'skipped' end
$$;

-- The newest error of an item, and when it was.
create function windrow.last_error(trail json, out message text, out at bigint)
language sql immutable as $$
    select (select s.record->'error'->>'message'
            from json_array_elements(trail->'stages') with ordinality s (record, n)
            where s.record->'error' is not null order by n desc limit 1),
           (select coalesce((a.attempt->>'ended')::bigint,
                (trail->'stages'->((a.attempt->>'stage')::int)->>'completed')::bigint)
            from json_array_elements(trail->'attempts') with ordinality a (attempt, n)
            where a.attempt->'error' is not null
               or (a.attempt->'number' is null
                   and trail->'stages'->((a.attempt->>'stage')::int)->'error' is not null)
            order by n desc limit 1)
    where trail is not null
$$;

-- When something was last written about an item.
create function windrow.touched(trail json) returns bigint language sql immutable as $$
    select max(t.ms::bigint) from (
        select unnest(array[record->>'started', record->>'completed', record->>'renewed'])
        from json_array_elements(trail->'stages') record
        union all select attempt->>'ended' from json_array_elements(trail->'attempts') attempt
        union all select trail->>'finished') t (ms)
$$;

-- Seed 000. What has no key shows its id; without a limit the most that a number can say is shown.
create view windrow.unified_queue as
    select windrow.item_id(e.serial, (select tag from windrow.store))::text as queue_id,
           k.name as item_type,
           b.op,
           t.name as tenant_id,
           coalesce(b.collection, '') as collection,
           e.priority::int as priority,
           case windrow.status_of(e.doing) when 'processing' then 'in_progress'
               when 'completed' then 'done' else windrow.status_of(e.doing) end as status,
           windrow.at(e.serial >> 16) as created_at,
           windrow.at(greatest(e.serial >> 16, e.granted, e.renewed, e.ended,
               windrow.touched(e.trail))) as updated_at,
           windrow.at(e.expires) as lease_until,
           e.worker as worker_id,
           coalesce(e.key, windrow.item_id(e.serial, (select tag from windrow.store))::text)
               as idempotency_key,
           case when b.blob is null then windrow.as_text(b.payload)
                else json_build_object('blob', encode(b.blob, 'hex'), 'bytes', b.blob_bytes)::text
           end as payload_json,
           case when e.doing < 2 then e.attempts else greatest(e.attempts - 1, 0) end
               as retry_count,
           case p.max_attempts when 0 then 2147483647 else p.max_attempts - 1 end as max_retries,
           f.message as error_message,
           windrow.at(case when f.message is not null then f.at end) as last_error_at,
           coalesce(b.branch, 'main') as branch,
           coalesce(b.metadata, '{}') as metadata,
           q.name as queue,
           e.serial
    from windrow.every e
    join windrow.policies p on p.lane = e.lane
    join windrow.lanes l on l.no = e.lane
    join windrow.names q on q.no = e.queue
    join windrow.names t on t.no = e.tenant
    join windrow.names k on k.no = l.kind
    join windrow.bodies b on b.serial = e.serial
    left join lateral windrow.last_error(e.trail) f on true;

-- Leases that are over and were not taken back yet.
create view windrow.stale_items as
    select u.* from windrow.leases l
    cross join lateral unnest(l.serials) s (serial)
    join windrow.unified_queue u on u.serial = s.serial
    where l.expires <= extract(epoch from now()) * 1000 and u.status = 'in_progress';

create view windrow.v_stale_items as select * from windrow.stale_items;

-- What is kept of every place, without counting items.
create view windrow.queue_stats as
    select q.name as queue, t.name as tenant_id,
           (array['pending', 'processing', 'completed', 'failed', 'cancelled', 'skipped'])
               [c.status + 1] as status,
           sum(c.items)::bigint as count
    from windrow.counts c
    join windrow.names q on q.no = c.queue
    join windrow.names t on t.no = c.tenant
    group by q.name, t.name, c.status having sum(c.items) <> 0;

-- These count items.
create view windrow.v_queue_stats as
    select item_type, op, status, count(*) as count, min(created_at) as oldest,
           max(created_at) as newest
    from windrow.unified_queue group by item_type, op, status;

create view windrow.v_queue_by_collection as
    select collection, tenant_id, status, count(*) as count
    from windrow.unified_queue group by collection, tenant_id, status;

create view windrow.v_item_type_distribution as
    select item_type, status, count(*) as count
    from windrow.unified_queue group by item_type, status;

-- Seed 004.
create view windrow.job_queue as
    select windrow.item_id(e.serial, (select tag from windrow.store))::text as id,
           p.kind as job_type,
           upper(windrow.status_of(e.doing)) as status,
           windrow.payload_json(b.payload, b.blob, b.blob_bytes) as payload,
           case when e.trail->'result' is not null
                then windrow.as_json(e.trail->>'result') end as result,
           case when e.message is not null
                then jsonb_build_object('current', e.current, 'total', e.total,
                                        'message', e.message)
                else (e.trail->'progress')::jsonb end as progress,
           e.priority::int as priority,
           e.attempts,
           p.max_attempts,
           windrow.at(greatest(e.not_before, e.serial >> 16)) as scheduled_for,
           windrow.at(coalesce(e.granted,
               (e.trail->'stages'->(e.stage::int)->>'started')::bigint)) as started_at,
           windrow.at(e.ended) as completed_at,
           windrow.at(e.serial >> 16) as created_at,
           windrow.at(greatest(e.serial >> 16, e.granted, e.renewed, e.ended,
               windrow.touched(e.trail))) as updated_at,
           p.queue_name as queue,
           t.name as tenant_id,
           p.stage,
           e.serial
    from windrow.every e
    join windrow.policies p on p.lane = e.lane
    join windrow.names t on t.no = e.tenant
    join windrow.bodies b on b.serial = e.serial;
