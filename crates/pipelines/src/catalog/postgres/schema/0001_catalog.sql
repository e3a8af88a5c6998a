-- What pipelines know. Every table that holds something of a generation has its document and
-- number, so that the whole of it is found again when it is to go. Texts compare by their bytes, as
-- in SQLite.

create table windrow_catalog.documents (
    id uuid primary key,
    tenant text collate "C" not null,
    collection text collate "C" not null,
    source text collate "C" not null,
    name text collate "C" not null,
    folded_name text collate "C" not null,
    state text collate "C" not null,
    newest int not null,
    live int,
    added_at bigint not null,
    changed_at bigint not null
);
create unique index documents_by_source on windrow_catalog.documents (tenant, collection, source);
create index documents_by_time on windrow_catalog.documents (tenant, added_at, id);
create index documents_by_collection
    on windrow_catalog.documents (tenant, collection, added_at, id);
create index documents_by_state on windrow_catalog.documents (tenant, state, added_at, id);

create table windrow_catalog.generations (
    document uuid not null,
    number int not null,
    state text collate "C" not null,
    hash bytea not null,
    media_type text collate "C" not null,
    bytes bigint not null,
    place text collate "C" not null,
    pages int,
    failure text collate "C",
    added_at bigint not null,
    published_at bigint,
    item text,
    primary key (document, number)
);
create index generations_old on windrow_catalog.generations (document, number) where state = 'old';
create index generations_by_hash on windrow_catalog.generations (hash);

-- Sinks that have to confirm the deletion of a document.
create table windrow_catalog.deletions (
    document uuid not null,
    sink text collate "C" not null,
    confirmed boolean not null,
    primary key (document, sink)
);

create table windrow_catalog.pages (
    document uuid not null,
    generation int not null,
    number int not null,
    state text collate "C" not null,
    how text collate "C",
    hash bytea,
    reason text collate "C",
    bytes bigint,
    chunks int,
    markdown text collate "C",
    primary key (document, generation, number)
);

-- Words are cut before they come here, and each is found by its stem, also one that is in every
-- text: as FTS5's `porter` does it in SQLite.
create text search dictionary windrow_catalog.stem (template = snowball, language = english);
create text search configuration windrow_catalog.words (copy = pg_catalog.simple);
alter text search configuration windrow_catalog.words
    alter mapping replace pg_catalog.simple with windrow_catalog.stem;

create table windrow_catalog.chunks (
    id uuid primary key,
    document uuid not null,
    generation int not null,
    page int not null,
    ordinal int not null,
    tenant text collate "C" not null,
    collection text collate "C" not null,
    kind text collate "C" not null,
    embedder text collate "C",
    linked boolean not null,
    tokens int not null,
    begins int not null,
    ends int not null,
    hash bytea not null,
    metadata text collate "C" not null,
    text text collate "C" not null,
    words tsvector not null
);
create unique index chunks_by_page on windrow_catalog.chunks (document, generation, page, ordinal);
create index chunks_by_progress
    on windrow_catalog.chunks (document, generation) include (linked, embedder);
create index chunks_by_words on windrow_catalog.chunks using gin (words);

create table windrow_catalog.entities (
    id uuid primary key,
    tenant text collate "C" not null,
    collection text collate "C" not null,
    kind text collate "C" not null,
    name text collate "C" not null
);
create index entities_by_name on windrow_catalog.entities (tenant, collection, name);

create table windrow_catalog.mentions (
    chunk uuid not null,
    entity uuid not null,
    document uuid not null,
    generation int not null,
    name text collate "C" not null,
    description text collate "C" not null,
    score float8 not null,
    primary key (chunk, entity)
);
create index mentions_by_entity on windrow_catalog.mentions (entity, document, generation);
create index mentions_by_generation on windrow_catalog.mentions (document, generation);

create table windrow_catalog.relationships (
    chunk uuid not null,
    source uuid not null,
    target uuid not null,
    kind text collate "C" not null,
    document uuid not null,
    generation int not null,
    description text collate "C" not null,
    weight float8 not null,
    primary key (chunk, source, target, kind)
);
create index relationships_by_source on windrow_catalog.relationships (source);
create index relationships_by_target on windrow_catalog.relationships (target);
create index relationships_by_generation on windrow_catalog.relationships (document, generation);

create table windrow_catalog.vectors (
    chunk uuid primary key,
    sequence bigint not null,
    document uuid not null,
    generation int not null,
    page int not null,
    tenant text collate "C" not null,
    collection text collate "C" not null,
    vector bytea not null
);
create unique index vectors_by_sequence on windrow_catalog.vectors (sequence);
create index vectors_by_generation on windrow_catalog.vectors (document, generation);

-- Of which dimension the vectors of each generation are that has some.
create table windrow_catalog.dimensions (
    document uuid not null,
    generation int not null,
    tenant text collate "C" not null,
    collection text collate "C" not null,
    dimension int not null,
    primary key (document, generation)
);
create index dimensions_by_collection on windrow_catalog.dimensions (tenant, collection, dimension);

-- What else happened to vectors: a generation went live, or something was removed.
create table windrow_catalog.changes (
    sequence bigint primary key,
    kind text collate "C" not null,
    document uuid not null,
    generation int not null,
    chunk uuid
);
create index changes_live on windrow_catalog.changes (document) where kind = 'live';
create index changes_removed on windrow_catalog.changes (sequence) where kind = 'removed';

-- Whoever takes sequences holds the row until it commits, so that they are seen in their order.
create table windrow_catalog.counters (
    name text collate "C" primary key,
    value bigint not null
);
insert into windrow_catalog.counters (name, value) values ('sequence', 0), ('forgotten', 0);

-- What was removed and may lie in a store outside all the same: a document, a generation of it, or
-- a chunk. What is taken is being removed there.
create table windrow_catalog.leftovers (
    number bigint generated always as identity primary key,
    document uuid not null,
    generation int,
    chunk uuid,
    taken boolean not null
);
create index leftovers_by_chunk on windrow_catalog.leftovers (chunk) where chunk is not null;

create table windrow_catalog.memos (
    tenant text collate "C" not null,
    key bytea not null,
    phase text collate "C" not null,
    bytes bigint not null,
    used_at bigint not null,
    value bytea not null,
    primary key (tenant, key)
);
create index memos_by_phase on windrow_catalog.memos (tenant, phase, bytes);
create index memos_by_use on windrow_catalog.memos (used_at);

-- In a few rows for each phase, so that those who count seldom meet.
create table windrow_catalog.memo_counts (
    tenant text collate "C" not null,
    phase text collate "C" not null,
    bucket int not null,
    hits bigint not null,
    misses bigint not null,
    primary key (tenant, phase, bucket)
);
