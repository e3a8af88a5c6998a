//! Ended items in their millions, without running each: the rows of one that Windrow ended are
//! copied under other serials and keys.
//!
//! The one place of the bench that knows how the store lays out its tables: that the rows of an
//! item carry its `serial`, that `history` says in `ended_s` when it ended, and that `counts` are
//! maintained.

use super::ground::Ground;

/// Copies, one for every fifty milliseconds before the template was made.
const COPY: &str = r#"
do $copy$
declare
    template bigint;
    made record;
    index_of record;
    indexes text[] := '{}';
begin
    select max(serial) into strict template from windrow.history;
    for index_of in
        select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as definition
        from pg_index i join pg_class c on c.oid = i.indrelid
        where c.relnamespace = 'windrow'::regnamespace and c.relname in ('history', 'bodies')
          and not exists (select from pg_constraint where conindid = i.indexrelid)
    loop
        indexes := indexes || index_of.definition;
        execute format('drop index %s', index_of.name);
    end loop;
    for made in
        select format('insert into %1$s (%2$s) select %3$s from %1$s t, '
                      'generate_series(1, ITEMS) g where t.serial = %4$s',
                      c.oid::regclass, string_agg(quote_ident(a.attname), ', '),
                      string_agg(case
                          when a.attname = 'serial'
                              then 't.serial - (ITEMS + 1 - g) * (50::bigint << 16)'
                          when a.attname = 'ended_s'
                              then 't.ended_s - (ITEMS + 1 - g) * 50 / 1000'
                          when a.attname = 'key' and a.atttypid = 'uuid'::regtype
                              then 'md5(g::text)::uuid'
                          when a.attname = 'key' then $$'copy-' || g$$
                          else 't.' || quote_ident(a.attname) end, ', '), template) as rows
        from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = 'windrow'::regnamespace and c.relkind in ('r', 'p')
          and not c.relispartition and a.attnum > 0 and not a.attisdropped
          and exists (select from pg_attribute s where s.attrelid = c.oid
                      and s.attname = 'serial' and not s.attisdropped)
        group by c.oid
    loop
        execute made.rows;
    end loop;
    for at in 1 .. cardinality(indexes) loop
        execute indexes[at];
    end loop;
    update windrow.counts set items = items + ITEMS, roots = roots + ITEMS
    where ctid = (select ctid from windrow.counts where status = COMPLETED and items > 0 limit 1);
end
$copy$;
"#;

/// The number of the status in `counts`.
const COMPLETED: &str = "2";

/// Adds so many completed items to a database in which one was completed.
pub(super) fn load(ground: &Ground, database: &str, items: u64) -> anyhow::Result<()> {
    let copy = COPY.replace("ITEMS", &items.to_string()).replace("COMPLETED", COMPLETED);
    ground.sql(database, &copy)?;
    let found = ground.count(database, "select count(*) from windrow.history")?;
    anyhow::ensure!(found > items, "{found} items are kept; there should be more than {items}");
    ground.settle_down(database)
}
