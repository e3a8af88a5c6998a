-- Seed 004's claim: one item at a time, with nothing but SQL. Settling it goes through Windrow,
-- under the lease that this gives.

-- Lanes that somebody may take from now: not paused as a whole, their resource not closed, and not
-- too much waiting further down.
create function windrow.open_lanes(kinds text[], in_queue text, now bigint) returns setof int
language sql stable as $$
    select p.lane from windrow.policies p
    where p.kind = any (kinds) and (in_queue is null or p.queue_name = in_queue)
      and not exists (select from windrow.pauses x where x.queue = p.queue_name
          and (x.stage is null or x.stage = p.stage) and x.tenant is null)
      and not exists (select from windrow.gates g
          where g.resource = p.resource and g.closed_until > now)
      and (p.ahead_stage is null or p.ahead_max > (
          select windrow.waiting_in(q.no, s.no) from windrow.names q, windrow.names s
          where q.name = p.queue_name and s.name = p.ahead_stage))
$$;

-- Puts items in line whose time has come, and tells servers.
create function windrow.show_due(in_lanes int[], now bigint) returns void language sql as $$
    with due as (
        update windrow.items set spot = 1 where serial in (
            select serial from windrow.items
            where spot = 2 and not_before <= now and lane = any (in_lanes)
            order by not_before limit 10000 for update skip locked)
        returning lane, class, tenant, serial),
    came as (insert into windrow.line select * from due returning *),
    seats as (
        select lane, class, tenant, min(serial) as first, count(*) as items
        from came group by lane, class, tenant)
    select pg_notify('windrow_ready', 'sql|' || lane || ',' || class || ',' || tenant || ','
        || first || ',' || items) from seats
$$;

-- The first of a seat behind a serial. Children are left to Windrow: their parents must know.
create function windrow.first_behind(
    in_lane int, of_class smallint, of_tenant int, behind bigint
) returns bigint language sql as $$
    select l.serial from windrow.line l join windrow.items i on i.serial = l.serial
    where l.lane = in_lane and l.class = of_class and l.tenant = of_tenant
      and l.serial > behind and i.parent is null
    order by l.serial limit 1
$$;

-- Whether a group has room for an item that is locked. If not, the item waits aside until it has.
create function windrow.has_room(of_serial bigint) returns boolean language plpgsql as $$
declare
    i record;
    taken bigint;
    is_first boolean;
begin
    select x.queue, x.tenant, x.grp, l.stage_name, p.group_limit, p.ordered into i
    from windrow.items x join windrow.lanes l on l.no = x.lane
    join windrow.policies p on p.lane = x.lane where x.serial = of_serial;
    if i.grp is null or i.group_limit is null then
        return true;
    end if;
    if not pg_try_advisory_xact_lock(hashtextextended(
        format('windrow group %s %s %s %s', i.queue, i.stage_name, i.tenant, i.grp), 0)) then
        return false;
    end if;
    select count(*) filter (where m.state = 2 or (m.state = 0 and m.spot = 1 and w.serial is null)),
           coalesce(min(m.serial) >= of_serial, true)
    into taken, is_first
    from windrow.items m join windrow.lanes l on l.no = m.lane and l.stage_name = i.stage_name
    left join windrow.line w on w.lane = m.lane and w.class = m.class and w.tenant = m.tenant
        and w.serial = m.serial
    where m.queue = i.queue and m.tenant = i.tenant and m.grp = i.grp;
    if taken < i.group_limit and (is_first or not i.ordered) then
        return true;
    end if;
    perform windrow.park(array[of_serial]);
    return false;
end
$$;

create type windrow.seat as (lane int, class smallint, tenant int, first bigint);

-- The item that is next, locked: the highest class, there the oldest. What others look at, what
-- its group holds up and what is paused for its tenant is passed over.
create function windrow.next_in_line(in_lanes int[]) returns bigint language plpgsql as $$
declare
    seats windrow.seat[];
    seat record;
    chosen bigint;
begin
    seats := array(
        select (l.lane, s.class, s.tenant,
                windrow.first_behind(l.lane, s.class, s.tenant, s.first - 1))::windrow.seat
        from unnest(in_lanes) l (lane) cross join lateral windrow.seats(l.lane) s
        join windrow.policies p on p.lane = l.lane
        join windrow.names t on t.no = s.tenant
        where not exists (select from windrow.pauses x where x.queue = p.queue_name
            and (x.stage is null or x.stage = p.stage) and x.tenant = t.name));
    loop
        select s.* into seat
        from unnest(seats) with ordinality s (lane, class, tenant, first, n)
        where s.first is not null order by s.class desc, s.first limit 1;
        exit when not found;
        select serial into chosen from windrow.line
        where lane = seat.lane and class = seat.class and tenant = seat.tenant
          and serial = seat.first
        for update skip locked;
        if found and windrow.has_room(chosen) then
            return chosen;
        end if;
        seats[seat.n].first :=
            windrow.first_behind(seat.lane, seat.class, seat.tenant, seat.first);
    end loop;
    return null;
end
$$;

-- Takes the next item of these kinds, under a lease of its own. No row if nothing is ready. The
-- attempt is counted here; it counts once the caller's transaction is committed, and until then
-- nobody else gets the item.
create function windrow.claim_next_job(
    worker_types text[], worker text default 'sql', queue text default null
) returns table (
    job_id text, job_type text, payload jsonb, lease_id uuid, lease_until timestamptz,
    attempts int, queue_name text, tenant_id text, stage text
) language plpgsql as $$
#variable_conflict use_column
declare
    now bigint := windrow.now_ms();
    lanes int[];
    chosen bigint;
    new_lease uuid := gen_random_uuid();
    lasts bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'claim_next_job needs a read committed transaction, not a % one',
            current_setting('transaction_isolation') using errcode = 'invalid_transaction_state',
            hint = 'A stricter one cannot see what others took meanwhile.';
    end if;
    perform windrow.check_bytes('worker', claim_next_job.worker, 128);
    lanes := array(select * from windrow.open_lanes(worker_types, claim_next_job.queue, now));
    perform windrow.show_due(lanes, now);
    chosen := windrow.next_in_line(lanes);
    if chosen is null then
        return;
    end if;
    now := windrow.now_ms();
    select greatest(p.lease_ms, 1) into lasts
    from windrow.items i join windrow.policies p on p.lane = i.lane where i.serial = chosen;
    delete from windrow.line l using windrow.items i
    where i.serial = chosen and l.lane = i.lane and l.class = i.class and l.tenant = i.tenant
      and l.serial = chosen;
    insert into windrow.leases (id, worker, granted, renewed, expires, lease_ms, items, serials)
    values (new_lease, coalesce(claim_next_job.worker, ''), now, now, now + lasts, lasts, 1,
        array[chosen]);
    perform windrow.count_item(i.queue, i.tenant, 0, -1),
            windrow.count_item(i.queue, i.tenant, 1, 1)
    from windrow.items i where i.serial = chosen;
    return query
        select windrow.item_id(chosen)::text, p.kind,
               windrow.payload_json(b.payload, b.blob, b.blob_bytes), new_lease,
               windrow.at(now + lasts), i.attempts + 1, p.queue_name, t.name, p.stage
        from windrow.items i join windrow.policies p on p.lane = i.lane
        join windrow.names t on t.no = i.tenant join windrow.bodies b on b.serial = i.serial
        where i.serial = chosen;
end
$$;
