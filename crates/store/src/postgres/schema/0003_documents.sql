-- Seed 001: documents, their pages and chunks, each with how it stands in three phases. They are
-- items of those kinds, a page below its document and a chunk below its page. What only the catalog
-- knows comes from an item's metadata, if that is JSON and says it.

create type windrow.task_status as enum
    ('pending', 'processing', 'completed', 'failed', 'skipped', 'cancelled');

-- The phase that a stage is part of.
create function windrow.phase_of(stage text) returns text
language sql immutable parallel safe as $$
    select case when stage in ('pages', 'ocr') then 'ocr'
                when stage in ('chunk', 'vector') then 'vector'
                when stage in ('graph', 'graphrag') then 'graphrag' end
$$;

-- How an item stands in a stage of its route. A stage behind the one where it failed is
-- `unreached`: a failure for whatever is above it, and pending again if it is retried.
create function windrow.stand_of(
    index int, stage smallint, doing smallint, skipped int
) returns text language sql immutable parallel safe as $$
    select case when skipped >> index & 1 = 1 then 'skipped'
                when index < stage or doing = 4 then 'completed'
                when doing = 7 then 'skipped'
                when doing = 6 then 'cancelled'
                when doing = 5 then case when index = stage then 'failed' else 'unreached' end
                when index = stage and doing = 3 then 'completed'
                when index = stage and doing = 2 then 'processing'
                else 'pending' end
$$;

-- How an item without children stands in the phases that those would have passed.
create function windrow.stand_below(doing smallint) returns text
language sql immutable parallel safe as $$
    select case doing when 4 then 'completed' when 7 then 'skipped' when 6 then 'cancelled'
                      when 5 then 'unreached' else 'pending' end
$$;

-- What two parts make of the whole: any processing, else any pending, else all completed or
-- skipped, else all cancelled, else failed.
create function windrow.together(a text, b text) returns text
language sql immutable parallel safe as $$
    select case when a = 'processing' or b = 'processing' then 'processing'
                when a = 'pending' or b = 'pending' then 'pending'
                when coalesce(a, b) = 'cancelled' and b = 'cancelled' then 'cancelled'
                when coalesce(a, b) in ('completed', 'skipped') and b in ('completed', 'skipped')
                    then 'completed'
                else 'failed' end
$$;

create aggregate windrow.bubble_up(text) (
    sfunc = windrow.together, stype = text, parallel = safe);

-- An item's own part in a phase. Without one its stand is null.
create function windrow.own_phase(
    wanted text, stages text[], stage smallint, doing smallint, skipped int, attempts int,
    trail json, holder text, granted bigint, renewed bigint
) returns table (
    stand text, worker text, started bigint, completed bigint, heartbeat bigint, error text,
    retries int
) language sql immutable as $$
    select case count(*) when 1 then min(p.stand) else windrow.bubble_up(p.stand) end,
           (array_agg(p.worker order by n desc) filter (where p.worker is not null))[1],
           min(p.started),
           case when bool_and(p.completed is not null) then max(p.completed) end,
           max(p.heartbeat),
           (array_agg(p.error order by n desc) filter (where p.error is not null))[1],
           sum(p.attempts - case when p.attempts > 0 and p.stand in ('completed', 'processing')
                                 then 1 else 0 end)::int
    from (
        select s.n, windrow.stand_of(s.n::int - 1, stage, doing, skipped) as stand,
               coalesce(h.holder, r.record->>'worker') as worker,
               coalesce(h.granted, (r.record->>'started')::bigint) as started,
               case when h.holder is null then (r.record->>'completed')::bigint end as completed,
               coalesce(h.renewed, (r.record->>'renewed')::bigint) as heartbeat,
               r.record->'error'->>'message' as error,
               case when s.n - 1 = stage then attempts
                    else coalesce((r.record->>'attempts')::int, 0) end as attempts
        from unnest(stages) with ordinality s (name, n)
        cross join lateral (select trail->'stages'->(s.n::int - 1)) r (record)
        left join lateral (select holder, granted, renewed) h
            on s.n - 1 = stage and doing = 2
        where windrow.phase_of(s.name) = wanted) p
$$;

-- Every item with what it is and its own part in each phase.
create view windrow.leaves as
    select e.serial, e.parent, e.place_generation, e.generation, e.ordinal, e.doing, e.worker,
           e.renewed, p.kind, case p.max_attempts when 0 then 2147483647
               else p.max_attempts end as max_retries,
           windrow.at(e.serial >> 16) as created_at,
           windrow.at(greatest(e.serial >> 16, e.granted, e.renewed, e.ended,
               windrow.touched(e.trail))) as updated_at,
           x.stand as ocr, x.worker as ocr_worker, x.started as ocr_started,
           x.completed as ocr_completed, x.heartbeat as ocr_heartbeat, x.error as ocr_error,
           coalesce(x.retries, 0) as ocr_retries,
           v.stand as vector, v.worker as vector_worker, v.started as vector_started,
           v.completed as vector_completed, v.heartbeat as vector_heartbeat,
           v.error as vector_error, coalesce(v.retries, 0) as vector_retries,
           g.stand as graph, g.worker as graph_worker, g.started as graph_started,
           g.completed as graph_completed, g.heartbeat as graph_heartbeat,
           g.error as graph_error, coalesce(g.retries, 0) as graph_retries
    from windrow.every e
    join windrow.policies p on p.lane = e.lane
    join windrow.routes r on r.no = e.route
    cross join lateral windrow.own_phase('ocr', r.stages, e.stage, e.doing, e.skipped,
        e.attempts, e.trail, e.worker, e.granted, e.renewed) x
    cross join lateral windrow.own_phase('vector', r.stages, e.stage, e.doing, e.skipped,
        e.attempts, e.trail, e.worker, e.granted, e.renewed) v
    cross join lateral windrow.own_phase('graphrag', r.stages, e.stage, e.doing, e.skipped,
        e.attempts, e.trail, e.worker, e.granted, e.renewed) g;

-- A phase of an item and of what is below it. An error below is shown where there is none above.
create function windrow.whole_phase(
    doing smallint, own text, below text, own_started bigint, below_started bigint,
    own_completed bigint, below_completed bigint, own_error text, below_error text
) returns table (stand text, started bigint, completed bigint, error text)
language sql immutable as $$
    select s.stand, least(own_started, below_started),
           case when s.stand not in ('pending', 'processing')
                then greatest(own_completed, below_completed) end,
           coalesce(own_error, below_error)
    from (select case when below is null then coalesce(own, windrow.stand_below(doing))
                      when own is null then below
                      else windrow.together(windrow.together(null, own), below) end as stand) s
$$;

-- Items with their children: pages with their chunks.
create view windrow.branches as
    select l.*, coalesce(c.children, 0)::int as children,
           x.stand as ocr_whole, x.started as ocr_began, x.completed as ocr_ended,
           x.error as ocr_fault,
           v.stand as vector_whole, v.started as vector_began, v.completed as vector_ended,
           v.error as vector_fault,
           g.stand as graph_whole, g.started as graph_began, g.completed as graph_ended,
           g.error as graph_fault
    from windrow.leaves l
    left join lateral (
        select count(*) as children,
               windrow.bubble_up(c.ocr) filter (where c.ocr is not null) as ocr,
               min(c.ocr_started) as ocr_started, max(c.ocr_completed) as ocr_completed,
               min(c.ocr_error) as ocr_error,
               windrow.bubble_up(c.vector) filter (where c.vector is not null) as vector,
               min(c.vector_started) as vector_started,
               max(c.vector_completed) as vector_completed, min(c.vector_error) as vector_error,
               windrow.bubble_up(c.graph) filter (where c.graph is not null) as graph,
               min(c.graph_started) as graph_started, max(c.graph_completed) as graph_completed,
               min(c.graph_error) as graph_error
        from windrow.leaves c
        where c.parent = l.serial and c.place_generation = l.generation) c on true
    cross join lateral windrow.whole_phase(l.doing, l.ocr, c.ocr, l.ocr_started, c.ocr_started,
        l.ocr_completed, c.ocr_completed, l.ocr_error, c.ocr_error) x
    cross join lateral windrow.whole_phase(l.doing, l.vector, c.vector, l.vector_started,
        c.vector_started, l.vector_completed, c.vector_completed, l.vector_error,
        c.vector_error) v
    cross join lateral windrow.whole_phase(l.doing, l.graph, c.graph, l.graph_started,
        c.graph_started, l.graph_completed, c.graph_completed, l.graph_error, c.graph_error) g;

create function windrow.task(stand text) returns windrow.task_status
language sql immutable parallel safe as $$
    select (case stand when 'unreached' then 'pending' else stand end)::windrow.task_status
$$;

-- What an item's metadata says under a name.
create function windrow.says(metadata text, name text) returns text language sql immutable as $$
    select case when metadata is not null then windrow.as_json(metadata)->>name end
$$;

create view windrow.documents as
    select windrow.item_id(d.serial, (select tag from windrow.store)) as id,
           coalesce(windrow.says(b.metadata, 'filename'), b.source_info, b.reference,
                    i.key) as filename,
           windrow.task(x.stand) as ocr_status,
           windrow.task(v.stand) as vector_index_status,
           windrow.task(g.stand) as graphrag_index_status,
           windrow.at(x.started) as ocr_started_at,
           windrow.at(x.completed) as ocr_completed_at,
           x.error as ocr_error,
           windrow.at(v.started) as vector_started_at,
           windrow.at(v.completed) as vector_completed_at,
           v.error as vector_error,
           windrow.at(g.started) as graphrag_started_at,
           windrow.at(g.completed) as graphrag_completed_at,
           g.error as graphrag_error,
           d.worker::varchar(100) as current_worker_id,
           windrow.at(d.renewed) as last_heartbeat,
           windrow.task(v.stand) as vector_status,
           windrow.task(g.stand) as graphrag_status,
           windrow.status_of(d.doing)::windrow.task_status as status,
           d.created_at, d.updated_at, d.serial
    from windrow.leaves d
    join windrow.every i on i.serial = d.serial
    join windrow.bodies b on b.serial = d.serial
    left join lateral (
        select windrow.bubble_up(p.ocr_whole) as ocr, min(p.ocr_began) as ocr_began,
               max(p.ocr_ended) as ocr_ended, min(p.ocr_fault) as ocr_fault,
               windrow.bubble_up(p.vector_whole) as vector, min(p.vector_began) as vector_began,
               max(p.vector_ended) as vector_ended, min(p.vector_fault) as vector_fault,
               windrow.bubble_up(p.graph_whole) as graph, min(p.graph_began) as graph_began,
               max(p.graph_ended) as graph_ended, min(p.graph_fault) as graph_fault
        from windrow.branches p
        where p.parent = d.serial and p.place_generation = d.generation) p on true
    cross join lateral windrow.whole_phase(d.doing, d.ocr, p.ocr, d.ocr_started, p.ocr_began,
        d.ocr_completed, p.ocr_ended, d.ocr_error, p.ocr_fault) x
    cross join lateral windrow.whole_phase(d.doing, d.vector, p.vector, d.vector_started,
        p.vector_began, d.vector_completed, p.vector_ended, d.vector_error, p.vector_fault) v
    cross join lateral windrow.whole_phase(d.doing, d.graph, p.graph, d.graph_started,
        p.graph_began, d.graph_completed, p.graph_ended, d.graph_error, p.graph_fault) g
    where d.kind = 'document' and d.parent is null;

-- A page of its document's current generation: those of an older one count no more.
create view windrow.task_queue_page as
    select windrow.item_id(p.serial, (select tag from windrow.store)) as id,
           windrow.item_id(p.parent, (select tag from windrow.store)) as document_id,
           (p.ordinal & 268435455)::int as page_number,
           windrow.says(b.metadata, 'page_file_path')::varchar(1000) as page_file_path,
           windrow.task(p.ocr_whole) as ocr_status,
           p.ocr_worker::varchar(100) as ocr_worker_id,
           windrow.at(p.ocr_began) as ocr_started_at,
           windrow.at(p.ocr_ended) as ocr_completed_at,
           p.ocr_fault as ocr_error,
           p.ocr_retries as ocr_retry_count,
           windrow.at(p.ocr_heartbeat) as ocr_last_heartbeat,
           windrow.task(p.vector_whole) as vector_status,
           p.vector_worker::varchar(100) as vector_worker_id,
           windrow.at(p.vector_began) as vector_started_at,
           windrow.at(p.vector_ended) as vector_completed_at,
           p.vector_fault as vector_error,
           p.vector_retries as vector_retry_count,
           windrow.at(p.vector_heartbeat) as vector_last_heartbeat,
           windrow.task(p.graph_whole) as graphrag_status,
           p.graph_worker::varchar(100) as graphrag_worker_id,
           windrow.at(p.graph_began) as graphrag_started_at,
           windrow.at(p.graph_ended) as graphrag_completed_at,
           p.graph_fault as graphrag_error,
           p.graph_retries as graphrag_retry_count,
           windrow.at(p.graph_heartbeat) as graphrag_last_heartbeat,
           p.children as chunk_count, p.max_retries, p.created_at, p.updated_at, p.serial
    from windrow.branches p
    join windrow.every d on d.serial = p.parent and d.generation = p.place_generation
    join windrow.bodies b on b.serial = p.serial
    where p.kind = 'page';

create view windrow.task_queue_chunk as
    select windrow.item_id(c.serial, (select tag from windrow.store)) as id,
           windrow.item_id(c.parent, (select tag from windrow.store)) as page_id,
           windrow.item_id(coalesce(p.parent, c.parent), (select tag from windrow.store))
               as document_id,
           coalesce(windrow.says(b.metadata, 'chunk_id'), b.reference,
               windrow.item_id(c.serial, (select tag from windrow.store))::text)::varchar(64)
               as chunk_id,
           (c.ordinal & 268435455)::int as chunk_index,
           windrow.says(b.metadata, 'chunk_content_hash')::varchar(64) as chunk_content_hash,
           windrow.task(coalesce(c.vector, windrow.stand_below(c.doing))) as vector_status,
           c.vector_worker::varchar(100) as vector_worker_id,
           windrow.at(c.vector_started) as vector_started_at,
           windrow.at(c.vector_completed) as vector_completed_at,
           c.vector_error,
           c.vector_retries as vector_retry_count,
           windrow.at(c.vector_heartbeat) as vector_last_heartbeat,
           windrow.task(coalesce(c.graph, windrow.stand_below(c.doing))) as graphrag_status,
           c.graph_worker::varchar(100) as graphrag_worker_id,
           windrow.at(c.graph_started) as graphrag_started_at,
           windrow.at(c.graph_completed) as graphrag_completed_at,
           c.graph_error as graphrag_error,
           c.graph_retries as graphrag_retry_count,
           windrow.at(c.graph_heartbeat) as graphrag_last_heartbeat,
           coalesce(substring(windrow.says(b.metadata, 'entities_extracted')
               from '^\d{1,9}$')::int, 0)
               as entities_extracted,
           coalesce(substring(windrow.says(b.metadata, 'relationships_extracted')
               from '^\d{1,9}$')::int, 0)
               as relationships_extracted,
           c.max_retries, c.created_at, c.updated_at, c.serial
    from windrow.leaves c
    join windrow.every p on p.serial = c.parent and p.generation = c.place_generation
    join windrow.bodies b on b.serial = c.serial
    where c.kind = 'chunk';
