-- What a chunk says lies together, and chunks are found by the entities that they mention. Of these
-- indexes two were never asked; those of both ends of relationships took a page each for most rows.
drop index mentions_by_generation;
drop index relationships_by_generation;
drop index relationships_by_source;
drop index relationships_by_target;
