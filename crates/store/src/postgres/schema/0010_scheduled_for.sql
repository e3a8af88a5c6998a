-- Seed 004's view, once more. An item that was claimed keeps its row as it was, with the time from
-- which it could be; that is over, and says nothing any more.
create or replace view windrow.job_queue as
    select windrow.item_id(e.serial, (select tag from windrow.store))::text as id,
           p.kind as job_type,
           upper(windrow.status_of(e.doing)) as status,
           windrow.payload_json(b.payload, b.blob, b.blob_bytes) as payload,
           case when e.trail->'result' is not null
                then windrow.as_json(e.trail->>'result') end as result,
           case when e.message is not null
                then jsonb_build_object('current', e.current, 'total', e.total,
                                        'message', e.message)
                else (e.trail->'progress')::jsonb end as progress,
           e.priority::int as priority,
           e.attempts,
           p.max_attempts,
           windrow.at(greatest(case when e.doing < 2 then e.not_before end, e.serial >> 16))
               as scheduled_for,
           windrow.at(coalesce(e.granted,
               (e.trail->'stages'->(e.stage::int)->>'started')::bigint)) as started_at,
           windrow.at(e.ended) as completed_at,
           windrow.at(e.serial >> 16) as created_at,
           windrow.at(greatest(e.serial >> 16, e.granted, e.renewed, e.ended,
               windrow.touched(e.trail))) as updated_at,
           p.queue_name as queue,
           t.name as tenant_id,
           p.stage,
           e.serial
    from windrow.every e
    join windrow.policies p on p.lane = e.lane
    join windrow.names t on t.no = e.tenant
    join windrow.bodies b on b.serial = e.serial;
