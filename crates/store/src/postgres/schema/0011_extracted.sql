-- Seed 001's chunks, once more. How much was extracted is known only when the last stage ends, and
-- then stands in the item's result; what its metadata says goes first.

-- A whole number that a JSON text says under a name.
create function windrow.number_in(said text, name text) returns int language sql immutable as $$
    select substring(windrow.says(said, name) from '^\d{1,9}$')::int
$$;

create or replace view windrow.task_queue_chunk as
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
           coalesce(windrow.number_in(b.metadata, 'entities_extracted'),
               windrow.number_in(e.trail->>'result', 'entities_extracted'), 0)
               as entities_extracted,
           coalesce(windrow.number_in(b.metadata, 'relationships_extracted'),
               windrow.number_in(e.trail->>'result', 'relationships_extracted'), 0)
               as relationships_extracted,
           c.max_retries, c.created_at, c.updated_at, c.serial
    from windrow.leaves c
    join windrow.every p on p.serial = c.parent and p.generation = c.place_generation
    join windrow.every e on e.serial = c.serial
    join windrow.bodies b on b.serial = c.serial
    where c.kind = 'chunk';
