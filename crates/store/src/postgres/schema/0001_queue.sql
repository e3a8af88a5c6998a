-- The queue. Times are milliseconds UTC. Live items are small rows in `items`; what the producer
-- said, what became of an item and what a parent knows of its children lie apart; ended items
-- leave for `history`.

create table windrow.store (
    one         boolean primary key default true check (one),
    tag         bigint not null,
    -- Raised by every change of settings, pauses, gates or lanes, so that servers know theirs are old.
    configured  bigint not null default 0
);

-- A number for each server that starts. Servers that run at the same time differ modulo 64.
create sequence windrow.servers minvalue 0 start with 0;

create table windrow.names (
    no    int generated always as identity (start with 0 minvalue 0) primary key,
    name  text not null unique
);

create table windrow.routes (
    no     int generated always as identity (start with 0 minvalue 0) primary key,
    route  bytea not null unique
);

create table windrow.lanes (
    queue       int not null,
    stage_name  int not null,
    kind        int not null,
    primary key (queue, stage_name, kind)
);

create table windrow.items (
    serial      bigint primary key,
    queue       int not null,
    tenant      int not null,
    kind        int not null,
    stage_name  int not null,
    route       int not null,
    stage       smallint not null,
    priority    smallint not null,
    -- Priority, and above it due retries where the policy says so.
    class       smallint not null,
    -- 0 pending, 1 held, 2 leased, 3 split
    state       smallint not null,
    -- 0 nowhere, 1 in line, 2 waits for its time, 3 parked until its group has room
    spot        smallint not null,
    not_before  bigint not null,
    lease       uuid,
    attempts    int not null,
    deferrals   int not null,
    generation  int not null,
    skipped     int not null,
    marks       int not null,
    grp         text,
    parent      bigint,
    place_generation int not null,
    ordinal     bigint not null,
    level       smallint not null,
    key         uuid
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index items_line on windrow.items (queue, stage_name, kind, class, tenant, serial)
    where spot = 1;
create index items_age on windrow.items (queue, stage_name, kind, serial) where spot = 1;
create index items_delayed on windrow.items (not_before) where spot = 2;
create index items_parked on windrow.items (queue, stage_name, tenant, grp, serial) where spot = 3;
create index items_group on windrow.items (queue, stage_name, tenant, grp, serial)
    where grp is not null;
create index items_parent on windrow.items (parent, place_generation, ordinal)
    where parent is not null;
create unique index items_key on windrow.items (key) where key is not null and state <> 1;
create index items_cancelling on windrow.items (serial) where marks & 2 = 2;

create table windrow.bodies (
    serial        bigint primary key,
    op            text not null,
    key           text,
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

create table windrow.trails (
    serial  bigint primary key,
    trail   bytea not null
);

create table windrow.tallies (
    serial  bigint primary key,
    tally   bytea not null
) with (fillfactor = 50);

create table windrow.history (
    serial      bigint primary key,
    queue       int not null,
    tenant      int not null,
    kind        int not null,
    stage_name  int not null,
    route       int not null,
    stage       smallint not null,
    priority    smallint not null,
    -- 0 completed, 1 failed, 2 cancelled, 3 skipped
    ended       smallint not null,
    -- In whole seconds, rounded up.
    ended_s     bigint not null,
    attempts    int not null,
    deferrals   int not null,
    generation  int not null,
    skipped     int not null,
    marks       int not null,
    grp         text,
    parent      bigint,
    place_generation int not null,
    ordinal     bigint not null,
    level       smallint not null,
    key         uuid,
    -- Some of its children failed; it is kept whole.
    gaps        boolean not null,
    folded      boolean not null default false
);

create index history_parent on windrow.history (parent, place_generation, ordinal)
    where parent is not null;
create index history_roots on windrow.history (queue, tenant, ended_s, serial)
    where parent is null;
create index history_ended on windrow.history (ended_s, serial) where parent is null;
create index history_unfolded on windrow.history (ended_s, serial)
    where parent is null and marks & 16 = 16 and not folded and not gaps;
create index history_key on windrow.history (key, ended_s, serial) where key is not null;

create table windrow.leases (
    id        uuid primary key,
    worker    text not null,
    granted   bigint not null,
    renewed   bigint not null,
    expires   bigint not null,
    lease_ms  bigint not null,
    items     int not null,
    -- What it still holds.
    serials   bigint[] not null
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
    settings  bytea not null
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
    slot    smallint not null,
    items   bigint not null,
    -- Of those, ended roots: what retention counts.
    roots   bigint not null,
    primary key (queue, tenant, status, slot)
) with (fillfactor = 50);

-- The first items in line of a lane, locked: the highest classes first, tenants in turn after
-- `after_tenant`, and the oldest of all; some come twice. Nobody waits: what another claim looks at
-- is left out. If fewer than `wanted` come, there are no more.
create function windrow.offer(
    in_queue int, in_stage int, in_kind int, wanted int, after_tenant int,
    only_tenants int[], not_tenants int[], not_serials bigint[]
) returns setof bigint language plpgsql as $$
declare
    got int := 0;
    here int;
    total int;
    may_have_more boolean;
    current smallint := 32767;
    seat int;
    next_seat int;
    seats int[];
    each_max int;
    wrapped boolean;
    seen_all boolean;
begin
    loop
        select class into current from windrow.items
        where queue = in_queue and stage_name = in_stage and kind = in_kind and spot = 1
          and class < current and serial <> all (not_serials)
        order by class desc limit 1;
        exit when not found;
        seat := after_tenant;
        wrapped := false;
        seen_all := false;
        loop
            seats := '{}';
            if only_tenants is not null then
                seats := only_tenants;
                seen_all := true;
            else
                loop
                    select tenant into next_seat from windrow.items
                    where queue = in_queue and stage_name = in_stage and kind = in_kind
                      and spot = 1 and class = current and tenant > seat
                      and serial <> all (not_serials)
                    order by tenant limit 1;
                    if not found or (wrapped and next_seat > after_tenant) then
                        seen_all := wrapped;
                        exit when wrapped;
                        wrapped := true;
                        seat := -1;
                        continue;
                    end if;
                    seat := next_seat;
                    if seat <> all (not_tenants) then
                        seats := seats || seat;
                    end if;
                    exit when cardinality(seats) >= wanted - got;
                end loop;
            end if;
            each_max := (wanted - got) / greatest(cardinality(seats), 1) + 1;
            loop
                total := 0;
                may_have_more := false;
                foreach next_seat in array seats loop
                    return query
                        select serial from windrow.items
                        where queue = in_queue and stage_name = in_stage and kind = in_kind
                          and spot = 1 and class = current and tenant = next_seat
                          and serial <> all (not_serials)
                        order by serial limit each_max for update skip locked;
                    get diagnostics here = row_count;
                    total := total + here;
                    may_have_more := may_have_more or here = each_max;
                end loop;
                exit when total >= wanted - got or not may_have_more;
                each_max := each_max * 4;
            end loop;
            got := got + total;
            exit when seen_all or got >= wanted;
        end loop;
        exit when got >= wanted;
    end loop;
    return query
        select serial from windrow.items
        where queue = in_queue and stage_name = in_stage and kind = in_kind and spot = 1
          and (only_tenants is null or tenant = any (only_tenants))
          and tenant <> all (not_tenants) and serial <> all (not_serials)
        order by serial limit wanted / 8 + 1 for update skip locked;
end
$$;
