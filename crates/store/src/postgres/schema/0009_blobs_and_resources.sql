-- The bytes of payloads that are kept apart, as rows, so that any server can read what another
-- received. How many items refer to them is in windrow.blobs.

-- Uploads that are under way.
create table windrow.uploads (
    id        uuid primary key,
    tenant    text not null,
    bytes     bigint not null,
    hash      bytea,
    received  bigint not null default 0,
    since     bigint not null
);

-- Uploads that are whole, by the hash of their bytes.
create table windrow.contents (
    tenant  text not null,
    hash    bytea not null,
    bytes   bigint not null,
    -- The upload that brought them.
    upload  uuid not null,
    since   bigint not null,
    primary key (tenant, hash)
);

create table windrow.pieces (
    upload  uuid not null,
    first   bigint not null,
    piece   bytea not null,
    primary key (upload, first)
);

-- What is uploaded is mostly compressed already, and parts of it are read.
alter table windrow.pieces alter column piece set storage external;

-- Blobs that lost their last reference: their bytes may go.
create table windrow.dropped (
    id      bigint generated always as identity primary key,
    tenant  text not null,
    hash    bytea not null,
    bytes   bigint not null
);

create function windrow.note_dropped() returns trigger language plpgsql as $$
begin
    insert into windrow.dropped (tenant, hash, bytes) values (old.tenant, old.hash, old.bytes);
    return null;
end $$;

create trigger note_dropped after delete on windrow.blobs
    for each row execute function windrow.note_dropped();

-- What is known of a resource beyond until when it is closed.
alter table windrow.gates add column state bytea;
