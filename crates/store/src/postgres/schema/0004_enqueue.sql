-- For applications: to enqueue in a transaction of their own, and to claim with nothing but SQL.
-- Each does what the rules of the same name do, and no more than is said here.

-- Makes serials that no server makes: the last of 64 parts of each millisecond's counter.
create sequence windrow.sql_serials minvalue 0 maxvalue 1023 start with 0 cycle;

create function windrow.next_serial(now bigint) returns bigint language sql volatile as $$
    select (now << 16) | (63 << 10) | nextval('windrow.sql_serials')
$$;

create function windrow.now_ms() returns bigint language sql volatile as $$
    select (extract(epoch from clock_timestamp()) * 1000)::bigint
$$;

-- Refuses as the rules do, in their words.
create function windrow.check_bytes(field text, said text, most int) returns void
language plpgsql as $$
begin
    if octet_length(said) > most then
        raise exception '%: has % bytes; at most %', field, octet_length(said), most
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;

create function windrow.check_name(field text, said text) returns void language plpgsql as $$
begin
    if coalesce(said, '') = '' then
        raise exception '%: must not be empty', field using errcode = 'invalid_parameter_value';
    end if;
    perform windrow.check_bytes(field, said, 128);
end
$$;

-- The number of a name, given if it has none.
create function windrow.number_of(said text) returns int language plpgsql as $$
declare
    found_no int;
begin
    loop
        select no into found_no from windrow.names where name = said;
        exit when found;
        insert into windrow.names (name) values (said) on conflict do nothing;
    end loop;
    return found_no;
end
$$;

create function windrow.varint(number int) returns bytea language sql immutable as $$
    select case when number < 128 then decode(lpad(to_hex(number), 2, '0'), 'hex')
                else decode(lpad(to_hex(number & 127 | 128), 2, '0')
                    || lpad(to_hex(number >> 7), 2, '0'), 'hex') end
$$;

-- A route of plain stages, packed.
create function windrow.pack_route(stages text[]) returns bytea language sql immutable as $$
    select windrow.varint(cardinality(stages)) || string_agg(
        windrow.varint(octet_length(convert_to(name, 'UTF8'))) || convert_to(name, 'UTF8')
        || '\x00', ''::bytea order by n)
    from unnest(stages) with ordinality s (name, n)
$$;

create function windrow.route_of(stages text[]) returns int language plpgsql as $$
declare
    packed bytea;
    found_no int;
begin
    if coalesce(cardinality(stages), 0) not between 1 and 16 then
        raise exception 'route: must have between 1 and 16 stages'
            using errcode = 'invalid_parameter_value';
    end if;
    if exists (select from unnest(stages) name
               where coalesce(octet_length(name), 0) not between 1 and 128) then
        raise exception 'route: a stage name must have 1 to 128 bytes'
            using errcode = 'invalid_parameter_value';
    end if;
    if (select count(distinct name) from unnest(stages) name) < cardinality(stages) then
        raise exception 'route: must not name a stage twice'
            using errcode = 'invalid_parameter_value';
    end if;
    packed := windrow.pack_route(stages);
    loop
        select no into found_no from windrow.routes where route = packed;
        exit when found;
        insert into windrow.routes (route) values (packed) on conflict do nothing;
        perform windrow.number_of(name) from unnest(stages) name;
    end loop;
    return found_no;
end
$$;

-- The lane of a queue's items of a kind in a stage. Servers learn that there is a new one.
create function windrow.lane_of(in_queue int, in_stage int, of_kind int) returns int
language plpgsql as $$
declare
    found_no int;
begin
    loop
        select no into found_no from windrow.lanes
        where queue = in_queue and stage_name = in_stage and kind = of_kind;
        exit when found;
        insert into windrow.lanes (queue, stage_name, kind) values (in_queue, in_stage, of_kind)
        on conflict do nothing;
        if found then
            update windrow.store set configured = configured + 1;
        end if;
    end loop;
    return found_no;
end
$$;

-- Adds to the counts, in a slot that no server has and that other sessions rarely have.
create function windrow.count_item(in_queue int, of_tenant int, of_status int, more int)
returns void language sql as $$
    insert into windrow.counts (queue, tenant, status, slot, items, roots)
    values (in_queue, of_tenant, of_status, 64 * 512 + pg_backend_pid() % 4096, more, 0)
    on conflict (queue, tenant, status, slot) do update
    set items = counts.items + excluded.items
$$;

-- Tells servers that somebody is in line. A transaction that puts many items at one place says so
-- for the first, the second, the fourth and so on, each time for as many as there were.
create function windrow.tell(in_lane int, of_class int, of_tenant int, first_serial bigint)
returns void language plpgsql as $$
declare
    seat text := in_lane || ',' || of_class || ',' || of_tenant;
    told text[] := string_to_array(current_setting('windrow.told', true), '|');
    count int := 1;
begin
    if told[1] = seat then
        first_serial := told[2];
        count := told[3]::int + 1;
    end if;
    perform set_config('windrow.told', seat || '|' || first_serial || '|' || count, true);
    if count & (count - 1) = 0 then
        perform pg_notify('windrow_ready',
            'sql|' || seat || ',' || first_serial || ',' || count);
    end if;
end
$$;

-- What is in the way of a new item with this key: the item that has it, and as what. One that waits
-- is locked against being claimed, one in work against being settled, until the caller's
-- transaction ends: whoever works on it next sees what the caller wrote.
create function windrow.with_key(
    in_queue int, of_tenant int, said text, out at bigint, out outcome text
) language plpgsql as $$
declare
    i record;
    holder uuid;
    behind bigint;
    retained boolean := exists (select from windrow.settings s
                                where s.queue = in_queue and s.plain->>'unique' = 'retained');
begin
    if retained then
        perform pg_advisory_xact_lock(hashtextextended(
            format('windrow key %s %s %s', in_queue, of_tenant, said), 0));
    end if;
    loop
        select serial, lane, class, state, spot into i from windrow.items
        where queue = in_queue and tenant = of_tenant and key = said
          and key is not null and state <> 1;
        exit when not found;
        at := i.serial;
        outcome := 'duplicate';
        if i.state = 0 and i.spot = 1 then
            perform from windrow.line where lane = i.lane and class = i.class
                and tenant = of_tenant and serial = at for share;
            if found then
                return;
            end if;
        elsif i.state = 0 then
            perform from windrow.items where serial = at and state = 0 and spot = i.spot for share;
            if found then
                return;
            end if;
            continue;
        end if;
        -- Whoever holds it must read it again.
        update windrow.leases set changed = true where at = any (serials) returning id into holder;
        select state, spot into i from windrow.items where serial = at for update;
        continue when not found or (holder is null) = (i.state <> 3)
            or (i.state = 0 and i.spot <> 1);
        select is_serial into behind from windrow.successors where of_serial = at;
        outcome := case when found then 'duplicate' else 'successor' end;
        at := case when found then behind else at end;
        return;
    end loop;
    at := null;
    outcome := null;
    if retained then
        select serial into at from windrow.history
        where queue = in_queue and tenant = of_tenant and key = said and keeps_key
        order by ended_s desc, serial desc limit 1;
        outcome := case when found then 'duplicate' end;
    end if;
end
$$;

-- Refuses what would be one too many.
create function windrow.check_room(in_queue int) returns void language plpgsql as $$
declare
    most bigint;
    live bigint;
begin
    select (plain->>'live_max')::bigint into most from windrow.settings where queue = in_queue;
    if most is null then
        return;
    end if;
    select coalesce(sum(items), 0) into live from windrow.counts
    where queue = in_queue and status < 2;
    if live >= most then
        raise exception 'queue is full: % live items of at most %', live, most
            using errcode = 'configuration_limit_exceeded';
    end if;
end
$$;

-- Adds an item, in the caller's transaction. Says its id, and whether it was `created`, is a
-- `duplicate` (its key waits already, and that item is kept) or a `successor` (its key is being
-- worked on, and it waits for that to end).
create function windrow.enqueue(
    queue text, payload bytea default '', tenant text default 'default',
    kind text default 'item', key text default null, priority int default 5,
    not_before timestamptz default null, delay interval default null, grp text default null,
    op text default 'ingest', collection text default null, branch text default null,
    source_type text default null, source_info text default null, reference text default null,
    content_type text default null, metadata text default null, route text[] default '{work}',
    out id uuid, out outcome text
) language plpgsql as $$
#variable_conflict use_variable
declare
    now bigint := windrow.now_ms();
    visible bigint := coalesce((extract(epoch from coalesce(not_before,
        clock_timestamp() + delay)) * 1000)::bigint, 0);
    in_queue int;
    of_tenant int;
    in_lane int;
    on_route int;
    new_serial bigint;
    ahead bigint;
    in_line boolean;
begin
    perform windrow.check_item(queue, payload, tenant, kind, key, priority, visible - now, grp, op,
        collection, branch, source_type, source_info, reference, content_type, metadata);
    on_route := windrow.route_of(route);
    in_queue := windrow.number_of(queue);
    of_tenant := windrow.number_of(tenant);
    perform windrow.check_room(in_queue);
    in_lane := windrow.lane_of(in_queue, windrow.number_of(route[1]), windrow.number_of(kind));
    visible := greatest(visible, 0);
    loop
        if key is not null then
            select k.at, k.outcome into ahead, outcome
            from windrow.with_key(in_queue, of_tenant, key) k;
            if outcome = 'duplicate' then
                id := windrow.item_id(ahead);
                return;
            end if;
        end if;
        now := windrow.now_ms();
        new_serial := windrow.next_serial(now);
        in_line := ahead is null and visible <= now;
        insert into windrow.items (serial, queue, tenant, lane, route, priority, class, state, spot,
            not_before, marks, grp, key)
        values (new_serial, in_queue, of_tenant, in_lane, on_route, priority, priority * 2,
            case when ahead is null then 0 else 1 end,
            case when in_line then 1 when ahead is null then 2 else 0 end,
            visible, case when key is null then 0 else 32 end, grp, key)
        on conflict do nothing;
        -- Else somebody was faster with the key, or has the serial.
        exit when found;
    end loop;
    insert into windrow.bodies (serial, op, collection, branch, source_type, source_info,
        reference, content_type, payload, metadata)
    values (new_serial, op, collection, branch, source_type, source_info, reference, content_type,
        payload, metadata);
    if ahead is not null then
        insert into windrow.successors (of_serial, is_serial) values (ahead, new_serial);
        update windrow.items set marks = marks | 64 where serial = ahead;
    end if;
    perform windrow.count_item(in_queue, of_tenant, 0, 1);
    if in_line then
        insert into windrow.line values (in_lane, priority * 2, of_tenant, new_serial);
        perform windrow.tell(in_lane, priority * 2, of_tenant, new_serial);
    end if;
    outcome := coalesce(outcome, 'created');
    id := windrow.item_id(new_serial);
end
$$;

-- Refuses an item that is malformed or too large.
create function windrow.check_item(
    queue text, payload bytea, tenant text, kind text, key text, priority int, delay_ms bigint,
    grp text, op text, collection text, branch text, source_type text, source_info text,
    reference text, content_type text, metadata text
) returns void language plpgsql as $$
begin
    if priority is null or priority not between 0 and 10 then
        raise exception 'priority: must lie between 0 and 10'
            using errcode = 'invalid_parameter_value';
    end if;
    if delay_ms > 10 * 366 * 86400000::bigint then
        raise exception 'not_before: lies more than ten years ahead'
            using errcode = 'invalid_parameter_value';
    end if;
    perform windrow.check_name('tenant', tenant);
    perform windrow.check_name('queue', queue);
    perform windrow.check_name('kind', kind);
    perform windrow.check_name('op', op);
    perform windrow.check_bytes('group', grp, 128);
    perform windrow.check_bytes('collection', collection, 128);
    perform windrow.check_bytes('branch', branch, 128);
    perform windrow.check_bytes('source_type', source_type, 128);
    perform windrow.check_bytes('content_type', content_type, 128);
    perform windrow.check_bytes('key', key, 512);
    if key = '' then
        raise exception 'key: must not be empty; leave it out for none'
            using errcode = 'invalid_parameter_value';
    end if;
    perform windrow.check_bytes('source_info', source_info, 1024);
    perform windrow.check_bytes('ref', reference, 1024);
    perform windrow.check_bytes('metadata', metadata, 4096);
    if payload is null or octet_length(payload) > 16384 then
        raise exception 'payload: has % bytes; at most 16384',
            coalesce(octet_length(payload)::text, 'no') using errcode = 'invalid_parameter_value';
    end if;
end
$$;

-- The same with a text or JSON.
create function windrow.enqueue(
    queue text, payload text, tenant text default 'default',
    kind text default 'item', key text default null, priority int default 5,
    not_before timestamptz default null, delay interval default null, grp text default null,
    op text default 'ingest', collection text default null, branch text default null,
    source_type text default null, source_info text default null, reference text default null,
    content_type text default null, metadata text default null, route text[] default '{work}',
    out id uuid, out outcome text
) language sql as $$
    select * from windrow.enqueue(queue, convert_to(payload, 'UTF8'), tenant, kind, key, priority,
        not_before, delay, grp, op, collection, branch, source_type, source_info, reference,
        content_type, metadata, route)
$$;

create function windrow.enqueue(
    queue text, payload jsonb, tenant text default 'default',
    kind text default 'item', key text default null, priority int default 5,
    not_before timestamptz default null, delay interval default null, grp text default null,
    op text default 'ingest', collection text default null, branch text default null,
    source_type text default null, source_info text default null, reference text default null,
    content_type text default null, metadata text default null, route text[] default '{work}',
    out id uuid, out outcome text
) language sql as $$
    select * from windrow.enqueue(queue, convert_to(payload::text, 'UTF8'), tenant, kind, key,
        priority, not_before, delay, grp, op, collection, branch, source_type, source_info,
        reference, content_type, metadata, route)
$$;
