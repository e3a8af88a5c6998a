-- The queue. Times are milliseconds UTC. Live items are small rows in `items`; what the producer
-- said, what became of an item and what a parent knows of its children lie apart; ended items
-- leave for `history`.

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
    -- 0 nowhere, 1 in line, 2 waits for its time, 3 parked until its group has room
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
    key         text collate "C",
    -- How often its body was replaced.
    edition     int not null default 0
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Claims ask for `serial + 0`, which only this index has in order: one that read the primary key
-- instead would pass by everything that is leased or has gone.
create index items_line on windrow.items (lane, class, tenant, (serial + 0)) where spot = 1;
create index items_delayed on windrow.items (not_before) where spot = 2;
create index items_parked on windrow.items (serial) where spot = 3;
create index items_group on windrow.items (queue, tenant, grp, serial) where grp is not null;
create index items_parent on windrow.items (parent, place_generation, ordinal)
    where parent is not null;
-- Keys as they are, not their hashes: those of one producer lie together.
create unique index items_key on windrow.items (queue, tenant, key)
    where key is not null and state <> 1;
create index items_cancelling on windrow.items (serial) where marks & 2 = 2;

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
    cloned_from   uuid,
    edition       int not null default 0
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
create view windrow.live as
    select i.serial, i.queue, i.tenant, i.lane, i.route, i.stage, i.priority, i.attempts,
           i.deferrals, i.generation, i.skipped, i.marks, i.grp, i.parent, i.place_generation,
           i.ordinal, i.level, i.key, i.state, i.not_before, i.lease,
           t.trail::text as trail, y.tally, s.is_serial as successor,
           p.current, p.total, p.message
    from windrow.items i
    left join windrow.trails t on t.serial = case when i.marks & 8 = 8 then i.serial end
    left join windrow.tallies y on y.serial = case when i.marks & 16 = 16 then i.serial end
    left join windrow.successors s
        on s.of_serial = case when i.marks & 64 = 64 then i.serial end
    left join windrow.progress p on p.serial = case when i.state = 2 then i.serial end;

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

-- Fails as two that are at the same fail, so that the one who asks tries again.
create function windrow.expect(wanted bigint, got bigint) returns void language plpgsql as $$
begin
    if wanted <> got then
        raise exception 'an item changed meanwhile' using errcode = 'serialization_failure';
    end if;
end
$$;

-- Live items and everything above them, locked, deepest first: a child has a higher serial than its
-- parent. They are read after they are locked, so that what lies beside them is as young.
create function windrow.lock_items(wanted bigint[]) returns setof windrow.live
language plpgsql as $$
declare
    above bigint[] := wanted;
begin
    loop
        above := array(select distinct parent from windrow.items
                       where serial = any (above) and parent is not null);
        exit when cardinality(above) = 0;
        wanted := wanted || above;
    end loop;
    perform from windrow.items where serial = any (wanted) order by serial desc for update;
    return query select * from windrow.live where serial = any (wanted);
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
-- by the index and reads one item of each.
create function windrow.seats(in_lane int)
returns table (class smallint, tenant int, first bigint) language plpgsql as $$
#variable_conflict use_column
declare
    at_class smallint := 32767;
    at_tenant int := 2147483647;
begin
    loop
        select i.class, i.tenant, i.serial into at_class, at_tenant, first
        from windrow.items i
        where i.lane = in_lane and i.spot = 1 and (i.class, i.tenant) < (at_class, at_tenant)
        order by i.class desc, i.tenant desc, i.serial + 0 desc limit 1;
        exit when not found;
        select i.serial into first from windrow.items i
        where i.lane = in_lane and i.class = at_class and i.tenant = at_tenant and i.spot = 1
        order by i.serial + 0 limit 1;
        -- The last one there may have been taken meanwhile.
        if found then
            class := at_class;
            tenant := at_tenant;
            return next;
        end if;
    end loop;
end
$$;
