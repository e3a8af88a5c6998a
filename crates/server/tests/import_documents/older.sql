-- The older table of seed 001, as far as its page names it, with one row of every kind.
create type convert_status as enum ('pending', 'converting', 'converted', 'partial', 'failed', 'archived');
create type index_status as enum ('pending', 'indexing', 'indexed', 'partial', 'failed');
create table documents (
    id uuid primary key,
    filename varchar(500) not null,
    file_path varchar(1000),
    total_pages integer default 0,
    convert_status convert_status default 'pending',
    index_status index_status default 'pending',
    ocr_details jsonb,
    indexing_details jsonb,
    created_at timestamptz default now(),
    deleted_at timestamptz
);
create table task_queue (id uuid primary key, document_id uuid references documents (id));

insert into documents (id, filename, convert_status, index_status, ocr_details, indexing_details)
values
-- Converted and indexed: pages from 0, one text in a file; chunks without their texts.
('00000000-0000-0000-0000-000000000001', 'contract.pdf', 'converted', 'indexed',
 '{"version": "1.0", "page_ocr": {"status": "completed", "total_pages": 2, "pages": {
    "page_0": {"status": "success", "page_number": 0, "markdown":
      "# Lease of the orchard\n\nThe tenant keeps forty apple trees and prunes them in February.\n\nThe landlord repairs the cider press before every harvest."},
    "page_1": {"status": "success", "page_number": 1, "file_path": "output/contract/contract_page_1_nohf.md"}}}}',
 '{"version": "1.0", "vector_indexing": {"status": "completed", "chunks": {
    "chunk-a": {"status": "success", "page": 0}, "chunk-b": {"status": "success", "page": 0},
    "chunk-c": {"status": "success", "file_path": "output/contract/contract_page_1_nohf.md"}}},
   "graphrag_indexing": {"status": "completed", "chunks": {
    "chunk-a": {"status": "success", "entities": 3}, "chunk-b": {"status": "skipped"},
    "chunk-c": {"status": "success"}}}}'),
-- Converted, and nobody indexed it; pages from 1, in a list.
('00000000-0000-0000-0000-000000000002', 'notes.pdf', 'converted', 'pending',
 '[{"page_number": 1, "status": "completed", "markdown": "Varroa mites are counted in July on a sticky board."}]', null),
-- Nobody began with it.
('00000000-0000-0000-0000-000000000003', 'waiting.txt', 'pending', 'pending', null, null),
-- It failed, and nothing else is said.
('00000000-0000-0000-0000-000000000004', 'broken.pdf', 'failed', 'pending', null, null),
-- A page and a chunk failed; a chunk has its text.
('00000000-0000-0000-0000-000000000005', 'scan.txt', 'partial', 'partial',
 '{"page_ocr": {"total_pages": 2, "pages": {
    "page_1": {"status": "success", "page_number": 1, "markdown": "The lighthouse keeper writes a log.\n\nThe lamp burns paraffin."},
    "page_2": {"status": "failed", "page_number": 2, "error": "OCR inference timeout"}}}}',
 '{"chunks": [
    {"chunk_id": "x", "chunk_index": 0, "page_number": 1, "content": "The lighthouse keeper writes a log.",
     "vector_status": "completed", "graphrag_status": "completed"},
    {"chunk_id": "y", "chunk_index": 1, "page_number": 1, "content": "The lamp burns paraffin.",
     "vector_status": "failed", "vector_error": "Embedding timeout"}]}'),
-- What it says of its pages cannot be understood.
('00000000-0000-0000-0000-000000000006', 'odd.pdf', 'converted', 'indexed', '{"pages": "all of them"}', null),
-- Nothing is said but that it is done.
('00000000-0000-0000-0000-000000000007', 'bare.pdf', 'converted', 'indexed', null, null),
-- A status that nobody knows.
('00000000-0000-0000-0000-000000000008', 'archived.pdf', 'archived', 'pending', null, null),
-- Deleted.
('00000000-0000-0000-0000-000000000009', 'gone.pdf', 'converted', 'indexed', null, null);

update documents set deleted_at = now() where filename = 'gone.pdf';
insert into task_queue values ('00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-000000000003');
