-- What is set aside until an operator looks: seldom anything, and then it must be found at once.
create index items_quarantined on windrow.items (serial) where marks & 4 = 4;
