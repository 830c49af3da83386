-- A database that was removed keeps its row, so that no other one gets its number or its name.
alter table queen.databases add column removed_at timestamptz;
