@0xe7c1a58b36d2904f;
# The interface of seed 002 as its clients know it, written down from what is known of its wire
# (interface id, ordinals, fields) and from nothing of ours. The tests talk to the server with this.

interface SeedQueue @0x8323a518d3254563 {
  add @0 (req :AddReq) -> (resp :AddResp);
  remove @1 (req :RemoveReq) -> (resp :RemoveResp);
  poll @2 (req :PollReq) -> (resp :PollResp);
  extend @3 (req :ExtendReq) -> (resp :ExtendResp);
}

struct NewItem {
  contents @0 :Data;
  visibilityTimeoutSecs @1 :UInt64;
}

struct AddReq {
  items @0 :List(NewItem);
}

struct AddResp {
  ids @0 :List(Data);
}

struct RemoveReq {
  id @0 :Data;
  lease @1 :Data;
}

struct RemoveResp {
  removed @0 :Bool;
}

struct PollReq {
  leaseValiditySecs @0 :UInt64;
  numItems @1 :UInt32;
  timeoutSecs @2 :UInt64;
}

struct PolledItem {
  contents @0 :Data;
  id @1 :Data;
}

struct PollResp {
  items @0 :List(PolledItem);
  lease @1 :Data;
}

struct ExtendReq {
  lease @0 :Data;
  leaseValiditySecs @1 :UInt64;
}

struct ExtendResp {
  extended @0 :Bool;
}
