-- What pipelines know. Every table that holds something of a generation has its document and
-- number, so that the whole of it is found again when it is to go.

create table documents (
    id blob primary key,
    tenant text not null,
    collection text not null,
    source text not null,
    name text not null,
    folded_name text not null,
    state text not null,
    newest integer not null,
    live integer,
    added_at integer not null,
    changed_at integer not null
) strict;
create unique index documents_by_source on documents (tenant, collection, source);
create index documents_by_time on documents (tenant, added_at, id);
create index documents_by_collection on documents (tenant, collection, added_at, id);
create index documents_by_state on documents (tenant, state, added_at, id);

create table generations (
    document blob not null,
    number integer not null,
    state text not null,
    hash blob not null,
    media_type text not null,
    bytes integer not null,
    place text not null,
    pages integer,
    failure text,
    added_at integer not null,
    published_at integer,
    item text,
    primary key (document, number)
) strict, without rowid;
create index generations_old on generations (document, number) where state = 'old';
create index generations_by_hash on generations (hash);

-- Sinks that have to confirm the deletion of a document.
create table deletions (
    document blob not null,
    sink text not null,
    confirmed integer not null,
    primary key (document, sink)
) strict, without rowid;

create table pages (
    row integer primary key,
    document blob not null,
    generation integer not null,
    number integer not null,
    state text not null,
    how text,
    hash blob,
    reason text,
    bytes integer,
    chunks integer,
    markdown text
) strict;
create unique index pages_by_number on pages (document, generation, number);

create table chunks (
    row integer primary key,
    id blob not null,
    document blob not null,
    generation integer not null,
    page integer not null,
    ordinal integer not null,
    tenant text not null,
    collection text not null,
    kind text not null,
    embedder text,
    linked integer not null,
    tokens integer not null,
    begins integer not null,
    ends integer not null,
    hash blob not null,
    metadata text not null,
    text text not null
) strict;
create unique index chunks_by_id on chunks (id);
create unique index chunks_by_page on chunks (document, generation, page, ordinal);
create index chunks_by_progress on chunks (document, generation, linked, embedder);

-- The words of chunks, by their rows. `scope` has one number for the tenant, one for the collection
-- and one for the document, so that a search of a small place reads that place only; they count
-- for nothing in the rank.
create virtual table words using fts5 (
    scope, text,
    content = '', contentless_delete = 1,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
insert into words (words, rank) values ('rank', 'bm25(0.0, 1.0)');

create table entities (
    id blob primary key,
    tenant text not null,
    collection text not null,
    kind text not null,
    name text not null
) strict, without rowid;
create index entities_by_name on entities (tenant, collection, name);

-- What a chunk says, as one value (`said.rs`), by the chunk's row: what came together lies
-- together. A row for each relationship, in the order of its ends, took a page for most.
create table graphs (
    chunk integer primary key,
    said blob not null
) strict;

-- Who is mentioned where: the chunks of an entity, and what is asked of many mentions at once.
create table mentions (
    entity blob not null,
    document blob not null,
    generation integer not null,
    chunk integer not null,
    name text not null,
    score real not null,
    primary key (entity, document, generation, chunk)
) strict, without rowid;

create table vectors (
    sequence integer primary key,
    chunk blob not null,
    document blob not null,
    generation integer not null,
    page integer not null,
    tenant text not null,
    collection text not null,
    vector blob not null
) strict;
create unique index vectors_by_chunk on vectors (chunk);
create index vectors_by_generation on vectors (document, generation);

-- Of which dimension the vectors of each generation are that has some.
create table dimensions (
    document blob not null,
    generation integer not null,
    tenant text not null,
    collection text not null,
    dimension integer not null,
    primary key (document, generation)
) strict, without rowid;
create index dimensions_by_collection on dimensions (tenant, collection, dimension);

-- What else happened to vectors: a generation went live, or something was removed.
create table changes (
    sequence integer primary key,
    kind text not null,
    document blob not null,
    generation integer not null,
    chunk blob
) strict;
create index changes_live on changes (document) where kind = 'live';
create index changes_removed on changes (sequence) where kind = 'removed';

create table counters (
    name text primary key,
    value integer not null
) strict, without rowid;
insert into counters (name, value) values ('sequence', 0), ('forgotten', 0);

-- What was removed and may lie in a store outside all the same: a document, a generation of it, or
-- a chunk. What is taken is being removed there.
create table leftovers (
    number integer primary key autoincrement,
    document blob not null,
    generation integer,
    chunk blob,
    taken integer not null
) strict;
create index leftovers_by_chunk on leftovers (chunk) where chunk is not null;

create table memos (
    tenant text not null,
    key blob not null,
    phase text not null,
    bytes integer not null,
    used_at integer not null,
    value blob not null,
    primary key (tenant, key)
) strict;
create index memos_by_phase on memos (tenant, phase, bytes);
create index memos_by_use on memos (used_at);

create table memo_counts (
    tenant text not null,
    phase text not null,
    hits integer not null,
    misses integer not null,
    primary key (tenant, phase)
) strict, without rowid;
