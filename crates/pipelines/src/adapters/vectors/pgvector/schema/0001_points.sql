-- What each collection of a tenant holds. Points are in a table for each dimension, which is made
-- when the first of them comes: points_384 and so on.

create table windrow_vectors.collections (
  tenant text collate "C" not null,
  collection text collate "C" not null,
  dimension int not null,
  primary key (tenant, collection)
);

-- The dimensions that there are tables for. They stay when they are empty.
create table windrow_vectors.dimensions (
  dimension int primary key
);
