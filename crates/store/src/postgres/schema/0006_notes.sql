-- What servers keep for themselves beside the items: tokens, schedules, where long work stands.
create table windrow.notes (
    shelf    text not null,
    name     text not null,
    version  bigint not null,
    body     bytea not null,
    primary key (shelf, name)
);
