-- What operators look for most, and what is rare among everything that was kept: items that ended
-- otherwise than well.
create index history_unwell on windrow.history (serial) where ended <> 0;
