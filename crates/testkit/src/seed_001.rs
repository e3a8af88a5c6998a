//! The example queries of seed 001, as it prints them, for tests that answer them.

/// The progress of a document in all phases. `:doc_id` stands for its id. The seed groups by the id
/// alone, which PostgreSQL takes only of a table: it knows of no view that its id decides the rest.
pub const PROGRESS: &str = "
SELECT
    d.id,
    d.filename,
    d.ocr_status,
    d.vector_index_status,
    d.graphrag_index_status,
    -- OCR progress
    COUNT(p.id) as total_pages,
    COUNT(p.id) FILTER (WHERE p.ocr_status = 'completed') as ocr_completed_pages,
    COUNT(p.id) FILTER (WHERE p.ocr_status = 'failed') as ocr_failed_pages,
    -- Vector progress
    SUM(p.chunk_count) as total_chunks,
    (SELECT COUNT(*) FROM task_queue_chunk c WHERE c.document_id = d.id \
     AND c.vector_status = 'completed') as vector_completed_chunks,
    -- GraphRAG progress
    (SELECT COUNT(*) FROM task_queue_chunk c WHERE c.document_id = d.id \
     AND c.graphrag_status = 'completed') as graphrag_completed_chunks
FROM documents d
LEFT JOIN task_queue_page p ON d.id = p.document_id
WHERE d.id = :doc_id
GROUP BY d.id, d.filename, d.ocr_status, d.vector_index_status, d.graphrag_index_status;";

/// How many tasks of each type have which status.
pub const STATISTICS: &str = "
SELECT
    'ocr_pages' as task_type,
    ocr_status as status,
    COUNT(*) as count
FROM task_queue_page
GROUP BY ocr_status

UNION ALL

SELECT
    'vector_chunks' as task_type,
    vector_status as status,
    COUNT(*) as count
FROM task_queue_chunk
GROUP BY vector_status

UNION ALL

SELECT
    'graphrag_chunks' as task_type,
    graphrag_status as status,
    COUNT(*) as count
FROM task_queue_chunk
GROUP BY graphrag_status;";

/// Documents that are ready for the next phase.
pub const READY_FOR_VECTOR: &str = "
SELECT id, filename
FROM documents
WHERE ocr_status = 'completed'
  AND vector_index_status = 'pending';";

pub const READY_FOR_GRAPHRAG: &str = "
SELECT id, filename
FROM documents
WHERE vector_index_status = 'completed'
  AND graphrag_index_status = 'pending';";
