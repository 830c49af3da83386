-- Pushes of transactions to queues in other databases, which go into forwards without an outbox.

-- The slots that the transaction used in this database; null for a message of queen.enqueue. Such a slot moves when these
-- messages have arrived, so that later transactions in the other database can't overtake them.
alter table queen.forwards add column slots smallint[];
