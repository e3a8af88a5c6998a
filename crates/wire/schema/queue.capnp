@0xb1f4d3c09a7e6d25;
# Windrow over Cap'n Proto RPC: two-party, over TCP; `Queue` is the bootstrap capability.
#
# An id (of an item or a lease) is its 16 bytes. A time is in milliseconds since 1970. A field that
# is left out means what its comment says; an empty text that is there is a text. What the fields
# mean, and every code of a refusal, is in docs/reference/rpc.md.

interface Queue @0x8323a518d3254563 {
  # A plain queue with leases in whole seconds: the first four calls, on the one queue that the server
  # names. They fail with an exception. The last two lead to everything else.

  add @0 (req :AddRequest) -> (resp :AddResponse);
  remove @1 (req :RemoveRequest) -> (resp :RemoveResponse);
  poll @2 (req :PollRequest) -> (resp :PollResponse);
  extend @3 (req :ExtendRequest) -> (resp :ExtendResponse);

  login @4 (token :Text) -> (queue :Windrow);
  # Says who calls. From then on this connection may do what the token may.
  open @5 () -> (queue :Windrow);
  # The whole queue, for whoever needs no token.
}

struct AddRequest {
  items @0 :List(Item);
  struct Item {
    contents @0 :Data;
    visibilityTimeoutSecs @1 :UInt64;
    # How long nobody gets it.
  }
}

struct AddResponse {
  ids @0 :List(Data);
}

struct RemoveRequest {
  id @0 :Data;
  lease @1 :Data;
}

struct RemoveResponse {
  removed @0 :Bool;
}

struct PollRequest {
  leaseValiditySecs @0 :UInt64;
  numItems @1 :UInt32;
  # At most; 0 is 1.
  timeoutSecs @2 :UInt64;
  # How long to wait for an item; 0 for ever.
}

struct PollResponse {
  items @0 :List(Item);
  lease @1 :Data;
  # Neither is there if the time ran out.
  struct Item {
    contents @0 :Data;
    id @1 :Data;
  }
}

struct ExtendRequest {
  lease @0 :Data;
  leaseValiditySecs @1 :UInt64;
}

struct ExtendResponse {
  extended @0 :Bool;
}

interface Windrow {
  # The whole queue. A call that names several items answers for each, in their order. If `refused`
  # is there, nothing was done, and nothing else is there.

  enqueue @0 EnqueueRequest -> (each :List(Enqueued), refused :Refused);
  claim @1 ClaimRequest -> Granted;
  renew @2 (lease :Data, leaseMs :UInt64) -> (expiresAt :UInt64, held :List(Data), refused :Refused);
  # `leaseMs` 0 is as long as the lease was granted for. `held` is what the lease still holds.
  progress @3 (lease :Data, items :List(Progress)) -> (each :List(Done), refused :Refused);
  settle @4 (requestId :Data, lease :Data, items :List(Settle))
      -> (each :List(Settled), refused :Refused);

  cancel @5 (items :List(Data), requestId :Data) -> (each :List(Cancelled), refused :Refused);
  # Here and in the next two, a request id is for one item.
  retry @6 (items :List(Data), mode :RetryMode, fromStage :Text, requestId :Data)
      -> (each :List(Retried), refused :Refused);
  delete @7 (items :List(Data), requestId :Data) -> (each :List(Deleted), refused :Refused);
  prioritise @8 (items :List(Data), priority :UInt8) -> (each :List(Done), refused :Refused);

  pause @9 Scope -> Done;
  resume @10 Scope -> Done;
  configure @11 (queue :Text, settings :Text) -> Done;
  # `settings` is the JSON that HTTP takes, so that there is one way to write settings.

  inspect @12 (id :Data) -> (item :Item, refused :Refused);
  explain @13 (id :Data) -> (status :Status, reasons :List(Reason), refused :Refused);
  stats @14 (queue :Text, tenant :Text)
      -> (all :Counts, places :List(PlaceCounts), refused :Refused);
  # Of everything, or only of this queue or tenant.

  children @15 (id :Data, from :UInt32, limit :UInt32)
      -> (items :List(Item), next :UInt32, refused :Refused);
  # A page of an item's children, in order, beginning with the number `from`; at most 200, which is
  # also what a limit of 0 means. `next` is where the next page begins, 0 if there is none.
}

struct Refused {
  code @0 :Text;
  # One of docs/errors.
  detail @1 :Text;
  retryAfterMs @2 :UInt64;
  # How long to wait before asking again, if that can help.
}

struct Done {
  refused @0 :Refused;
}

struct EnqueueRequest {
  requestId @0 :Data;
  # 16 bytes by which it may be repeated harmlessly.
  queue @1 :Text;
  tenant @2 :Text;
  # For the items that name none.
  items @3 :List(NewItem);
}

struct NewItem {
  queue @0 :Text;
  tenant @1 :Text;
  kind @2 :Text;
  op @3 :Text;
  key @4 :Text;
  group @5 :Text;
  collection @6 :Text;
  branch @7 :Text;
  sourceType @8 :Text;
  sourceInfo @9 :Text;
  reference @10 :Text;
  route @11 :List(Stage);
  contentType @12 :Text;
  payload @13 :Data;
  blob @14 :Blob;
  # Instead of a payload.
  metadata @15 :Text;
  priority @16 :UInt8 = 5;
  onDuplicate @17 :OnDuplicate;
  onSplit @18 :OnSplit;
  notBefore @19 :UInt64;
  delayMs @20 :UInt64;
  # The same, from now on.
}

struct Stage {
  name @0 :Text;
  below @1 :List(Text);
  # The phases that items below it will pass.
}

struct Blob {
  hash @0 :Data;
  # SHA-256, 32 bytes.
  bytes @1 :UInt64;
}

enum OnDuplicate {
  keep @0;
  replace @1;
}

enum OnSplit {
  after @0;
  supersede @1;
}

struct Enqueued {
  id @0 :Data;
  outcome @1 :EnqueueOutcome;
  refused @2 :Refused;
}

enum EnqueueOutcome {
  created @0;
  duplicate @1;
  replaced @2;
  successor @3;
}

struct ClaimRequest {
  requestId @0 :Data;
  worker @1 :Text;
  queues @2 :List(Text);
  # Of all, if none is named. The same for stages, kinds and tenants.
  stages @3 :List(Text);
  kinds @4 :List(Text);
  tenants @5 :List(Text);
  max @6 :UInt32 = 1;
  leaseMs @7 :UInt64;
  # 0 is as long as the queue's settings say.
  waitMs @8 :UInt64;
}

struct Granted {
  lease @0 :Data;
  # Left out if there was nothing.
  expiresAt @1 :UInt64;
  items @2 :List(Work);
  refused @3 :Refused;
}

struct Work {
  id @0 :Data;
  tenant @1 :Text;
  queue @2 :Text;
  kind @3 :Text;
  op @4 :Text;
  stage @5 :Text;
  # The one that is to be done.
  route @6 :List(Text);
  key @7 :Text;
  group @8 :Text;
  collection @9 :Text;
  branch @10 :Text;
  sourceType @11 :Text;
  sourceInfo @12 :Text;
  reference @13 :Text;
  contentType @14 :Text;
  payload @15 :Data;
  blob @16 :Blob;
  metadata @17 :Text;
  input @18 :Data;
  # The output of the stage before.
  parent @19 :Data;
  attempt @20 :UInt16;
  priority @21 :UInt8;
}

struct Progress {
  id @0 :Data;
  current @1 :UInt64;
  total @2 :UInt64;
  message @3 :Text;
}

struct Settle {
  id @0 :Data;
  union {
    complete :group {
      result @1 :Data;
      # Stays with the item.
      output @2 :Data;
      # Goes to the next stage.
      spawn @3 :List(NewItem);
      # Enqueued in the same commit.
    }
    split :group {
      children @4 :List(Child);
      more @5 :Bool;
      # More of them follow; until then the lease is kept.
      onGaps @6 :OnGaps;
      output @7 :Data;
    }
    retry :group {
      class @8 :Class = other;
      error @9 :Text;
      delayMs @10 :Int64 = -1;
      # Below 0: as the queue's settings say.
    }
    fail :group {
      class @11 :Class = other;
      error @12 :Text;
    }
    skip :group {
      reason @13 :Text;
    }
    release :group {
      delayMs @14 :UInt64;
    }
    snooze :group {
      until @15 :UInt64;
    }
  }
}

struct Child {
  ordinal @0 :UInt32;
  # Its number among its siblings; a repeated one is ignored.
  kind @1 :Text;
  op @2 :Text;
  group @3 :Text;
  route @4 :List(Stage);
  priority @5 :UInt8 = 255;
  # 255: its parent's.
  contentType @6 :Text;
  payload @7 :Data;
  blob @8 :Blob;
  metadata @9 :Text;
  reference @10 :Text;
}

enum OnGaps {
  continue @0;
  stop @1;
}

enum Class {
  gone @0;
  badData @1;
  resource @2;
  infrastructure @3;
  rateLimit @4;
  other @5;
  leaseExpired @6;
  # This and the next ones are said by the queue only.
  children @7;
  internal @8;
}

struct Settled {
  id @0 :Data;
  ending @1 :Ending;
  refused @2 :Refused;
}

enum Ending {
  completed @0;
  split @1;
  retried @2;
  failed @3;
  skipped @4;
  released @5;
  snoozed @6;
  expired @7;
  cancelled @8;
}

struct Cancelled {
  id @0 :Data;
  ongoing @1 :Bool;
  # It has children that are being ended one after the other.
  refused @2 :Refused;
}

enum RetryMode {
  clone @0;
  # A new item; the old one stays as history. A child is reset all the same.
  reset @1;
  # The same item.
}

struct Retried {
  id @0 :Data;
  # The item that will run.
  reset @1 :UInt32;
  # How many items wait again.
  refused @2 :Refused;
}

struct Deleted {
  removed @0 :UInt32;
  refused @1 :Refused;
}

struct Scope {
  queue @0 :Text;
  stage @1 :Text;
  tenant @2 :Text;
}

enum Status {
  pending @0;
  processing @1;
  completed @2;
  failed @3;
  cancelled @4;
  skipped @5;
}

struct Item {
  work @0 :Work;
  # What a worker would get; without `input`.
  status @1 :Status;
  generation @2 :UInt16;
  # How often it was begun anew.
  createdAt @3 :UInt64;
  finishedAt @4 :UInt64;
  notBefore @5 :UInt64;
  lease @6 :Data;
  clonedFrom @7 :Data;
  successor @8 :Data;
  # The item with the same key that waits for this one to end.
  level @9 :UInt8;
  # Below the root, with the number among its siblings.
  ordinal @10 :UInt32;
  result @11 :Data;
  progress @12 :Progress;
  reason @13 :Text;
  # Why it ended as it did, if no stage's error says so.
  stages @14 :List(StageRecord);
  attempts @15 :List(Attempt);
  # The last ones, oldest first.
  children @16 :Children;
  placeGeneration @17 :UInt16;
  # Which generation of its parent's children it belongs to.
}

struct Fault {
  class @0 :Class;
  message @1 :Text;
}

struct StageRecord {
  name @0 :Text;
  status @1 :Status;
  attempts @2 :UInt16;
  worker @3 :Text;
  startedAt @4 :UInt64;
  completedAt @5 :UInt64;
  renewedAt @6 :UInt64;
  error @7 :Fault;
  output @8 :Data;
}

struct Attempt {
  stage @0 :Text;
  number @1 :UInt16;
  worker @2 :Text;
  startedAt @3 :UInt64;
  endedAt @4 :UInt64;
  ending @5 :Ending;
  error @6 :Fault;
}

struct Children {
  all @0 :Buckets;
  phases @1 :List(Phase);
  more @2 :Bool;
  # Still to come.
  struct Phase {
    name @0 :Text;
    counts @1 :Buckets;
  }
}

struct Buckets {
  pending @0 :UInt32;
  processing @1 :UInt32;
  completed @2 :UInt32;
  failed @3 :UInt32;
  cancelled @4 :UInt32;
  skipped @5 :UInt32;
  unreached @6 :UInt32;
  # Phases after one that failed.
  percent @7 :UInt32;
}

struct Reason {
  code @0 :Text;
  unblockedBy @1 :Text;
}

struct Counts {
  pending @0 :UInt64;
  processing @1 :UInt64;
  completed @2 :UInt64;
  failed @3 :UInt64;
  cancelled @4 :UInt64;
  skipped @5 :UInt64;
}

struct PlaceCounts {
  queue @0 :Text;
  tenant @1 :Text;
  counts @2 :Counts;
}
