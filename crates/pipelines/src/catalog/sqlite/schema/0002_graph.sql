-- What a chunk says lies together, and chunks are found by the entities that they mention. Of these
-- indexes one was never asked; those of both ends of relationships took a page each for most rows.
drop index relationships_by_generation;
drop index relationships_by_source;
drop index relationships_by_target;
