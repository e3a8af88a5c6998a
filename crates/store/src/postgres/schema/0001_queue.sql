-- The queue. Times are milliseconds UTC. Live items are small rows in `items`; who may be claimed
-- stands in `line`; what the producer said, what became of an item and what a parent knows of its
-- children lie apart; ended items leave for `history`.

create table windrow.store (
    one         boolean primary key default true check (one),
    tag         bigint not null,
    -- Raised by every change of settings, pauses, gates or lanes, so that servers know theirs are old.
    configured  bigint not null default 0
);

-- The server that does what must happen by itself, and until when unless it comes back.
create table windrow.leader (
    one         boolean primary key default true check (one),
    leader      bigint not null,
    leads_until bigint not null
);
insert into windrow.leader (leader, leads_until) values (0, 0);

-- A number for each server that starts. Servers that run at the same time differ modulo 63; the
-- last of 64 is for ids that SQL makes.
create sequence windrow.servers minvalue 0 start with 0;

create table windrow.names (
    no    int generated always as identity (start with 0 minvalue 0) primary key,
    name  text not null unique
);

create table windrow.routes (
    no     int generated always as identity (start with 0 minvalue 0) primary key,
    route  bytea not null unique
);

-- Where items wait: a stage of a queue, for items of one kind.
create table windrow.lanes (
    no          int generated always as identity (start with 0 minvalue 0) primary key,
    queue       int not null,
    stage_name  int not null,
    kind        int not null,
    unique (queue, stage_name, kind)
);

create table windrow.items (
    serial      bigint primary key,
    queue       int not null,
    tenant      int not null,
    lane        int not null,
    route       int not null,
    stage       smallint not null default 0,
    priority    smallint not null,
    -- Twice the priority, and one more for due retries where the policy puts them first.
    class       smallint not null,
    -- 0 pending, 1 held, 2 leased, 3 split
    state       smallint not null default 0,
    -- 0 nowhere, 1 in line or out of it, 2 waits for its time, 3 parked until its group has room
    spot        smallint not null default 1,
    not_before  bigint not null default 0,
    lease       uuid,
    attempts    int not null default 0,
    deferrals   int not null default 0,
    generation  int not null default 0,
    skipped     int not null default 0,
    marks       int not null,
    grp         text,
    parent      bigint,
    place_generation int not null default 0,
    ordinal     bigint not null default 0,
    level       smallint not null default 0,
    key         text collate "C"
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index items_delayed on windrow.items (not_before) where spot = 2;
create index items_parked on windrow.items (serial) where spot = 3;
create index items_aside on windrow.items (lane) where state = 0 and spot <> 1;
create index items_group on windrow.items (queue, tenant, grp, serial) where grp is not null;
create index items_parent on windrow.items (parent, place_generation, ordinal)
    where parent is not null;
-- Keys as they are, not their hashes: those of one producer lie together.
create unique index items_key on windrow.items (queue, tenant, key)
    where key is not null and state <> 1;
create index items_cancelling on windrow.items (serial) where marks & 2 = 2;

-- Who may be claimed, and where. A claim takes its items out of here and writes its lease: nothing
-- else. What is pending with spot 1 and not here is out, on the lease that lists it, and was
-- attempted once more than its row says.
--
-- Claims lock rows here and not in `items`. So whoever changes a row of `items` or `bodies` while
-- the item is in line puts another row here in the place of the old one, which a claim that looked
-- before it was changed does not find.
create table windrow.line (
    lane    int not null,
    class   smallint not null,
    tenant  int not null,
    serial  bigint not null,
    primary key (lane, class, tenant, serial)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create table windrow.bodies (
    serial        bigint primary key,
    op            text not null,
    collection    text,
    branch        text,
    source_type   text,
    source_info   text,
    reference     text,
    content_type  text,
    payload       bytea,
    blob          bytea,
    blob_bytes    bigint,
    metadata      text,
    cloned_from   uuid
);

-- Of live items. An ended one has its trail in its row.
create table windrow.trails (
    serial  bigint primary key,
    trail   json not null
);

create table windrow.tallies (
    serial  bigint primary key,
    tally   bytea not null
) with (fillfactor = 50);

create table windrow.history (
    serial      bigint primary key,
    queue       int not null,
    tenant      int not null,
    lane        int not null,
    route       int not null,
    stage       smallint not null,
    priority    smallint not null,
    -- 0 completed, 1 failed, 2 cancelled, 3 skipped
    ended       smallint not null,
    -- In whole seconds, rounded up.
    ended_s     bigint not null,
    attempts    int not null,
    deferrals   int not null default 0,
    generation  int not null default 0,
    skipped     int not null default 0,
    marks       int not null,
    grp         text,
    parent      bigint,
    place_generation int not null default 0,
    ordinal     bigint not null default 0,
    level       smallint not null default 0,
    key         text collate "C",
    -- Its queue lets no other item have its key while it is kept.
    keeps_key   boolean not null default false,
    -- Some of its children failed; it is kept whole.
    gaps        boolean not null default false,
    folded      boolean not null default false,
    trail       json
);

create index history_parent on windrow.history (parent, place_generation, ordinal)
    where parent is not null;
create index history_roots on windrow.history (queue, tenant, ended_s, serial)
    where parent is null;
create index history_unfolded on windrow.history (ended_s, serial)
    where parent is null and marks & 16 = 16 and not folded and not gaps;
create index history_key on windrow.history (queue, tenant, key, ended_s, serial) where keeps_key;

create table windrow.leases (
    id        uuid primary key,
    worker    text not null,
    granted   bigint not null,
    renewed   bigint not null,
    expires   bigint not null,
    lease_ms  bigint not null,
    items     int not null,
    -- What it still holds.
    serials   bigint[] not null,
    -- What it holds is not as it was handed out, or something lies beside it.
    changed   boolean not null default false
);

create index leases_expires on windrow.leases (expires);

create table windrow.progress (
    serial   bigint primary key,
    current  bigint not null,
    total    bigint not null,
    message  text not null
);

create table windrow.successors (
    of_serial  bigint primary key,
    is_serial  bigint not null
);

create table windrow.orphans (
    parent      bigint not null,
    generation  int not null,
    primary key (parent, generation)
);

create table windrow.settings (
    queue     int primary key,
    settings  bytea not null,
    -- What of them SQL needs to know.
    plain     jsonb not null
);

create table windrow.pauses (
    queue   text not null,
    stage   text,
    tenant  text,
    unique nulls not distinct (queue, stage, tenant)
);

create table windrow.gates (
    resource      text primary key,
    closed_until  bigint not null
);

create table windrow.blobs (
    tenant      text not null,
    hash        bytea not null,
    bytes       bigint not null,
    refs        int not null,
    primary key (tenant, hash, bytes)
);

create table windrow.requests (
    id           uuid primary key,
    at           bigint not null,
    fingerprint  bigint not null,
    answer       bytea not null
);

create index requests_at on windrow.requests (at);

-- Items by place and status, in slots so that servers do not wait for each other.
create table windrow.counts (
    queue   int not null,
    tenant  int not null,
    status  smallint not null,
    slot    int not null,
    items   bigint not null,
    -- Of those, ended roots: what retention counts.
    roots   bigint not null,
    primary key (queue, tenant, status, slot)
) with (fillfactor = 50);

-- Live items with what lies beside them. Its marks say what an item has; what it has not, is not
-- looked for.
create view windrow.kept as
    select i.serial, i.queue, i.tenant, i.lane, i.route, i.stage, i.priority, i.attempts,
           i.deferrals, i.generation, i.skipped, i.marks, i.grp, i.parent, i.place_generation,
           i.ordinal, i.level, i.key, i.state, i.not_before, i.lease,
           t.trail::text as trail, y.tally, s.is_serial as successor,
           p.current, p.total, p.message, i.class, i.spot
    from windrow.items i
    left join windrow.trails t on t.serial = case when i.marks & 8 = 8 then i.serial end
    left join windrow.tallies y on y.serial = case when i.marks & 16 = 16 then i.serial end
    left join windrow.successors s
        on s.of_serial = case when i.marks & 64 = 64 then i.serial end
    left join windrow.progress p on p.serial = case when i.state in (0, 2) then i.serial end;

-- And the lease that it is out on.
create view windrow.live as
    select k.*, o.id as out_on
    from windrow.kept k
    left join windrow.line l on l.lane = k.lane and l.class = k.class and l.tenant = k.tenant
        and l.serial = case when k.state = 0 and k.spot = 1 then k.serial end
    left join lateral (
        select e.id from windrow.leases e
        where k.state = 0 and k.spot = 1 and l.serial is null and k.serial = any (e.serials)
        limit 1) o on true;

-- Ended items, the same.
create view windrow.ended as
    select h.serial, h.queue, h.tenant, h.lane, h.route, h.stage, h.priority, h.attempts,
           h.deferrals, h.generation, h.skipped, h.marks, h.grp, h.parent, h.place_generation,
           h.ordinal, h.level, h.key, h.ended, h.folded, h.trail::text as trail, y.tally,
           s.is_serial as successor
    from windrow.history h
    left join windrow.tallies y on y.serial = case when h.marks & 16 = 16 then h.serial end
    left join windrow.successors s
        on s.of_serial = case when h.marks & 64 = 64 then h.serial end;

-- Which of some items are in line, and which are out.
create function windrow.places(wanted bigint[], out in_line bigint[], out away bigint[])
language sql volatile as $$
    select coalesce(array_agg(i.serial order by i.serial) filter (where l.serial is not null), '{}'),
           coalesce(array_agg(i.serial order by i.serial) filter (where l.serial is null), '{}')
    from windrow.items i
    left join windrow.line l on l.lane = i.lane and l.class = i.class and l.tenant = i.tenant
        and l.serial = i.serial
    where i.serial = any (wanted) and i.state = 0 and i.spot = 1
$$;

-- Whether each of some items that are out is on one of these leases.
create function windrow.are_on(away bigint[], holders uuid[]) returns boolean
language sql volatile as $$
    select not exists (
        select unnest(away) except
        select held.serial from windrow.leases e, unnest(e.serials) held (serial)
        where e.id = any (holders))
$$;

-- Live items and everything above them, locked: the leases that some of them are out on, then
-- places in line, then items, deepest first: a child has a higher serial than its parent. They are
-- read after they are locked, so that what lies beside them is as young. The caller names the
-- leases that it has locked already: for others all have to be looked at.
create function windrow.lock_items(wanted bigint[], known uuid[]) returns setof windrow.live
language plpgsql as $$
declare
    above bigint[] := wanted;
    place record;
    later record;
    holders uuid[] := known;
    locked bigint;
begin
    loop
        above := array(select distinct parent from windrow.items
                       where serial = any (above) and parent is not null);
        exit when cardinality(above) = 0;
        wanted := wanted || above;
    end loop;
    -- Who was claimed or came back while we waited for it is elsewhere now.
    for turn in 1..1000 loop
        place := windrow.places(wanted);
        if not windrow.are_on(place.away, holders) then
            holders := holders || array(
                select e.id from windrow.leases e
                where e.id <> all (holders)
                  and exists (select from unnest(e.serials) held (serial)
                              where held.serial = any (place.away))
                order by e.id for update);
        end if;
        locked := 0;
        if cardinality(place.in_line) > 0 then
            perform from windrow.items i
            join windrow.line l on l.lane = i.lane and l.class = i.class and l.tenant = i.tenant
                and l.serial = i.serial
            where i.serial = any (place.in_line) order by l.serial desc for update of l;
            get diagnostics locked = row_count;
        end if;
        exit when locked = cardinality(place.in_line) and windrow.are_on(place.away, holders);
    end loop;
    perform from windrow.items where serial = any (wanted) order by serial desc for update;
    later := windrow.places(wanted);
    if later is distinct from place or not windrow.are_on(later.away, holders) then
        -- As two that are at the same thing fail: whoever asks tries again.
        raise exception 'an item changed meanwhile' using errcode = 'serialization_failure';
    end if;
    return query
        select k.*, o.id from windrow.kept k
        left join (select e.id, held.serial
                   from windrow.leases e, unnest(e.serials) held (serial)
                   where e.id = any (holders)) o
            on o.serial = case when k.state = 0 and k.spot = 1 then k.serial end
        where k.serial = any (wanted);
end
$$;

create function windrow.lock_ended(wanted bigint[]) returns setof windrow.ended
language plpgsql as $$
begin
    perform from windrow.history where serial = any (wanted) order by serial desc for update;
    return query select * from windrow.ended where serial = any (wanted);
end
$$;

-- The seats of a lane where somebody is in line, each with its first serial. Goes from seat to seat
-- by the index and reads two rows of each.
create function windrow.seats(in_lane int)
returns table (class smallint, tenant int, first bigint) language plpgsql as $$
#variable_conflict use_column
declare
    at_class smallint := 32767;
    at_tenant int := 2147483647;
begin
    loop
        select l.class, l.tenant into at_class, at_tenant
        from windrow.line l
        where l.lane = in_lane and (l.class, l.tenant) < (at_class, at_tenant)
        order by l.class desc, l.tenant desc, l.serial desc limit 1;
        exit when not found;
        select l.serial into first from windrow.line l
        where l.lane = in_lane and l.class = at_class and l.tenant = at_tenant
        order by l.serial limit 1;
        -- The last one there may have been taken meanwhile.
        if found then
            class := at_class;
            tenant := at_tenant;
            return next;
        end if;
    end loop;
end
$$;

-- Takes items out of line until their groups have room. Whoever calls it has locked them there.
create function windrow.park(parked bigint[]) returns void language sql as $$
    with gone as (
        update windrow.items set spot = 3 where serial = any (parked) and spot = 1
        returning lane, class, tenant, serial)
    delete from windrow.line l using gone g
    where l.lane = g.lane and l.class = g.class and l.tenant = g.tenant and l.serial = g.serial
$$;

-- What waits in a stage of a queue.
create function windrow.waiting_in(in_queue int, in_stage int) returns bigint
language sql stable as $$
    select coalesce(sum((select count(*) from windrow.line w where w.lane = l.no)
                        + (select count(*) from windrow.items i
                           where i.lane = l.no and i.state = 0 and i.spot <> 1)), 0)::bigint
    from windrow.lanes l where l.queue = in_queue and l.stage_name = in_stage
$$;

-- Puts what waits in a lane where a new policy has it. Nothing stays parked: claims look again.
create function windrow.reclass(in_lane int, retry_first boolean) returns void
language plpgsql as $$
declare
    moved bigint[];
begin
    moved := array(
        select i.serial from windrow.items i where i.lane = in_lane and i.spot > 0
        and (i.spot = 3 or i.class <> i.priority * 2
             + (case when retry_first and i.marks & 128 = 128 then 1 else 0 end)));
    perform from windrow.items i
    join windrow.line l on l.lane = i.lane and l.class = i.class and l.tenant = i.tenant
        and l.serial = i.serial
    where i.serial = any (moved) order by l.serial desc for update of l;
    perform from windrow.items where serial = any (moved) order by serial desc for update;
    with gone as (
        delete from windrow.line l using windrow.items i
        where i.serial = any (moved) and l.lane = i.lane and l.class = i.class
          and l.tenant = i.tenant and l.serial = i.serial
        returning l.serial),
    parked as (
        select serial from windrow.items where serial = any (moved) and spot = 3),
    now as (
        update windrow.items i set spot = case when i.spot = 3 then 1 else i.spot end,
            class = i.priority * 2
                + (case when retry_first and i.marks & 128 = 128 then 1 else 0 end)
        where i.serial = any (moved) and i.lane = in_lane
        returning i.lane, i.class, i.tenant, i.serial)
    insert into windrow.line
    select * from now
    where serial in (select serial from gone union all select serial from parked);
end
$$;
