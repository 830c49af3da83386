/** What each queue option does, in one line next to its field. */

export const texts = {
  leaseTime: "Time that a consumer has to process popped messages.",
  retryLimit: "Retries after the first attempt.",
  retryDelay: "Delay before the first retry.",
  retryBackoff: "Factor by which the delay grows with each retry.",
  maxRetryDelay: "Longest delay between two attempts.",
  dlqAfterMaxRetries: "Keep messages that exhaust their retries as dead letters. If off, they are dropped.",
  ordered: "Allow one delivery per partition at a time.",
  priority: "If one pop reads several queues, higher values go first.",
  delayedProcessing: "Delay before each message is delivered.",
  windowBuffer: "Time that a partition collects messages before delivery.",
  rateLimit: "Maximum messages per time window, for each consumer group.",
  concurrencyLimit: "Maximum deliveries that a consumer group can lease at once. 0: no limit.",
  maxSize: "Maximum pending messages. 0: no limit.",
  maxPayloadBytes: "Maximum size of a payload.",
  ttl: "Drop messages older than this. 0: never.",
  maxWaitTimeSeconds: "Dead-letter messages that wait longer than this. 0: never.",
  schema: "JSON Schema that each payload must match.",
  dedupWindowSeconds: "Time that a transactionId is remembered to reject duplicates. 0: off.",
  retentionEnabled: "Apply the two retention limits below.",
  retentionSeconds: "Time to keep messages, completed or not. 0: forever.",
  completedRetentionSeconds: "Time to keep messages that all groups completed. 0: forever.",
  partitionRetentionSeconds: "Time to keep empty partitions. 0: use the server setting.",
  encryptionEnabled: "Store new messages encrypted.",
  placement:
    "Where partitions are if there are several databases. home: all in one. spread: each in any. Fixed when the queue is created.",
} as const;

export const fieldTexts = {
  number: "Enter a number.",
  rate: "Enter at least 1 message and at least 16 ms.",
} as const;
