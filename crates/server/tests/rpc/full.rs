//! The full queue over RPC.

use capnp::struct_list;
use windrow_wire::queue_capnp::{
    Class, Ending, EnqueueOutcome, OnDuplicate, RetryMode, Status, queue, refused, settle, windrow,
};

use crate::bed::{Data, Server, connect, run};

/// The full queue, as a new connection opens it.
async fn open(server: &Server) -> windrow::Client {
    let (queue, _) = connect::<queue::Client>(&server.rpc).await;
    let opened = queue.open_request().send().promise.await.unwrap();
    opened.get().unwrap().get_queue().unwrap()
}

/// The code of a refusal; empty if there is none.
fn code(refused: capnp::Result<refused::Reader<'_>>) -> String {
    refused.unwrap().get_code().unwrap().to_string().unwrap()
}

/// Adds plain items; their ids.
async fn add(queue: &windrow::Client, name: &str, payloads: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut request = queue.enqueue_request();
    request.get().set_queue(name);
    let mut items = request.get().init_items(payloads.len() as u32);
    for (at, payload) in (0..).zip(payloads) {
        items.reborrow().get(at).set_payload(payload);
    }
    let response = request.send().promise.await.unwrap();
    let response = response.get().unwrap();
    assert_eq!(code(response.get_refused()), "");
    let each = response.get_each().unwrap();
    each.iter().map(|one| one.get_id().unwrap().to_vec()).collect()
}

/// Takes so many items of a queue: the lease, and their ids.
async fn take(queue: &windrow::Client, name: &str, max: u32) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut request = queue.claim_request();
    request.get().set_worker("w");
    request.get().set_max(max);
    request.get().init_queues(1).set(0, name);
    let response = request.send().promise.await.unwrap();
    let granted = response.get().unwrap();
    let items = granted.get_items().unwrap().iter();
    let ids = items.map(|work| work.get_id().unwrap().to_vec()).collect();
    (granted.get_lease().unwrap().to_vec(), ids)
}

/// Settles items; how each ended, or the code of why not.
async fn settles(
    queue: &windrow::Client,
    lease: &[u8],
    count: usize,
    write: impl FnOnce(struct_list::Builder<'_, settle::Owned>),
) -> Vec<Result<Ending, String>> {
    let mut request = queue.settle_request();
    request.get().set_lease(lease);
    write(request.get().init_items(count as u32));
    let response = request.send().promise.await.unwrap();
    let response = response.get().unwrap();
    assert_eq!(code(response.get_refused()), "");
    let ended = |one: windrow_wire::queue_capnp::settled::Reader<'_>| {
        if one.has_refused() { Err(code(one.get_refused())) } else { Ok(one.get_ending().unwrap()) }
    };
    response.get_each().unwrap().iter().map(ended).collect()
}

#[test]
fn every_field_of_an_item_arrives_and_a_request_is_done_once() {
    let data = Data::new("fields");
    let server = Server::start(&data.0);
    run(async {
        let queue = open(&server).await;
        let mut ids = Vec::new();
        for _ in 0..2 {
            let mut request = queue.enqueue_request();
            request.get().set_request_id(&[9; 16]);
            request.get().set_queue("q");
            let mut items = request.get().init_items(2);
            let mut item = items.reborrow().get(0);
            item.set_tenant("t");
            item.set_kind("pdf");
            item.set_op("delete");
            item.set_key("k");
            item.set_group("g");
            item.set_collection("c");
            item.set_branch("b");
            item.set_source_type("s");
            item.set_source_info("i");
            item.set_reference("r");
            item.set_content_type("image/png");
            item.set_payload(b"\0\xff{");
            item.set_metadata("[1]");
            item.set_priority(9);
            item.set_on_duplicate(OnDuplicate::Replace);
            let mut route = item.init_route(2);
            route.reborrow().get(0).set_name("ocr");
            route.reborrow().get(1).set_name("split");
            route.reborrow().get(1).init_below(1).set(0, "vector");
            items.get(1).set_priority(11);
            let response = request.send().promise.await.unwrap();
            let each = response.get().unwrap().get_each().unwrap();
            assert_eq!(each.get(0).get_outcome().unwrap(), EnqueueOutcome::Created);
            assert_eq!(code(each.get(1).get_refused()), "invalid");
            ids.push(each.get(0).get_id().unwrap().to_vec());
        }
        assert_eq!(ids[0], ids[1], "repeated by its request id");

        let mut request = queue.claim_request();
        request.get().set_worker("w");
        request.get().set_lease_ms(60_000);
        let response = request.send().promise.await.unwrap();
        let granted = response.get().unwrap();
        assert!(granted.get_expires_at() > 0);
        let work = granted.get_items().unwrap().get(0);
        let texts = [
            work.get_tenant(),
            work.get_queue(),
            work.get_kind(),
            work.get_op(),
            work.get_stage(),
            work.get_key(),
            work.get_group(),
            work.get_collection(),
            work.get_branch(),
            work.get_source_type(),
            work.get_source_info(),
            work.get_reference(),
            work.get_content_type(),
            work.get_metadata(),
        ];
        let texts = texts.map(|text| text.unwrap().to_str().unwrap());
        let want = ["t", "q", "pdf", "delete", "ocr", "k", "g", "c", "b", "s", "i", "r"];
        assert_eq!(texts[..], [&want[..], &["image/png", "[1]"]].concat());
        assert_eq!(work.get_payload().unwrap(), b"\0\xff{");
        assert_eq!((work.get_attempt(), work.get_priority()), (1, 9));
        assert_eq!(work.get_route().unwrap().len(), 2);
        assert_eq!(work.get_id().unwrap(), ids[0]);
    });
    assert_eq!(server.stats()["processing"], 1);
}

#[test]
fn work_goes_through_its_stages_and_every_outcome_is_answered() {
    let data = Data::new("outcomes");
    let server = Server::start(&data.0);
    run(async {
        let queue = open(&server).await;
        let ids = add(&queue, "q", &[b"0", b"1", b"2", b"3", b"4", b"5", b"6"]).await;
        let (lease, taken) = take(&queue, "q", 100).await;
        assert_eq!(taken, ids);

        let mut request = queue.renew_request();
        request.get().set_lease(&lease);
        let response = request.send().promise.await.unwrap();
        assert_eq!(response.get().unwrap().get_held().unwrap().len(), 7);
        let mut request = queue.progress_request();
        request.get().set_lease(&lease);
        let mut items = request.get().init_items(2);
        items.reborrow().get(0).set_id(&ids[0]);
        items.reborrow().get(0).set_message("half");
        items.reborrow().get(1).set_id(b"short");
        let response = request.send().promise.await.unwrap();
        let each = response.get().unwrap().get_each().unwrap();
        assert!(!each.get(0).has_refused());
        assert_eq!(code(each.get(1).get_refused()), "invalid");

        let ended = settles(&queue, &lease, 9, |mut items| {
            for (at, id) in (0..).zip(&ids) {
                items.reborrow().get(at).set_id(id);
            }
            let mut complete = items.reborrow().get(0).init_complete();
            complete.set_result(b"done");
            let mut spawn = complete.init_spawn(1);
            spawn.reborrow().get(0).set_queue("spawned");
            let mut split = items.reborrow().get(1).init_split();
            let mut children = split.reborrow().init_children(2);
            for at in 0..2 {
                let mut child = children.reborrow().get(at);
                child.set_ordinal(at);
                child.set_kind("page");
            }
            let mut retry = items.reborrow().get(2).init_retry();
            retry.set_error("again");
            retry.set_delay_ms(60_000);
            let mut fail = items.reborrow().get(3).init_fail();
            fail.set_class(Class::BadData);
            fail.set_error("never");
            items.reborrow().get(4).init_skip().set_reason("nothing to do");
            items.reborrow().get(5).init_release().set_delay_ms(60_000);
            items.reborrow().get(6).init_snooze().set_until(u64::MAX);
            items.reborrow().get(7).set_id(&[7; 16]);
            let mut wrong = items.reborrow().get(8);
            wrong.set_id(&ids[0]);
            wrong.init_fail().set_class(Class::Internal);
        })
        .await;
        use Ending::*;
        let good = [Completed, Split, Retried, Failed, Skipped, Released, Snoozed];
        let want: Vec<_> = good.map(Ok).into_iter().collect();
        assert_eq!(ended[..7], want);
        assert_eq!(ended[7..], [Err("not_found".to_owned()), Err("invalid".to_owned())]);

        looks_at_what_became_of_them(&queue, &ids).await;
    });
    let stats = server.get("/api/v1/queue/stats?queue=spawned");
    assert_eq!(stats["pending"], 1, "{stats}");
}

/// What is seen of a completed, a split and a failed item.
async fn looks_at_what_became_of_them(queue: &windrow::Client, ids: &[Vec<u8>]) {
    let inspect = async |id: &[u8]| {
        let mut request = queue.inspect_request();
        request.get().set_id(id);
        request.send().promise.await.unwrap()
    };
    let response = inspect(&ids[0]).await;
    let item = response.get().unwrap().get_item().unwrap();
    assert_eq!(item.get_status().unwrap(), Status::Completed);
    assert_eq!(item.get_result().unwrap(), b"done");
    assert_eq!(item.get_attempts().unwrap().get(0).get_worker().unwrap(), "w");
    let response = inspect(&ids[1]).await;
    let item = response.get().unwrap().get_item().unwrap();
    assert_eq!(item.get_children().unwrap().get_all().unwrap().get_pending(), 2);
    let response = inspect(&ids[3]).await;
    let item = response.get().unwrap().get_item().unwrap();
    let error = item.get_stages().unwrap().get(0).get_error().unwrap();
    assert_eq!(error.get_class().unwrap(), Class::BadData);
    assert_eq!(error.get_message().unwrap(), "never");
}

#[test]
fn an_operator_cancels_retries_removes_pauses_and_looks() {
    let data = Data::new("operator");
    let server = Server::start(&data.0);
    run(async {
        let queue = open(&server).await;
        let ids = add(&queue, "q", &[b"0", b"1"]).await;
        let mut request = queue.cancel_request();
        let mut items = request.get().init_items(2);
        items.set(0, &ids[0]);
        items.set(1, &[7; 16]);
        let response = request.send().promise.await.unwrap();
        let each = response.get().unwrap().get_each().unwrap();
        assert_eq!(each.get(0).get_id().unwrap(), ids[0]);
        assert_eq!(code(each.get(1).get_refused()), "not_found");

        let mut request = queue.retry_request();
        request.get().set_mode(RetryMode::Clone);
        request.get().init_items(1).set(0, &ids[0]);
        let response = request.send().promise.await.unwrap();
        let retried = response.get().unwrap().get_each().unwrap().get(0);
        assert_ne!(retried.get_id().unwrap(), ids[0]);

        let mut request = queue.delete_request();
        let mut items = request.get().init_items(2);
        items.set(0, &ids[0]);
        items.set(1, &ids[1]);
        let response = request.send().promise.await.unwrap();
        let each = response.get().unwrap().get_each().unwrap();
        assert_eq!(each.get(0).get_removed(), 1);
        assert_eq!(code(each.get(1).get_refused()), "still_live");

        let mut request = queue.prioritise_request();
        request.get().set_priority(10);
        request.get().init_items(1).set(0, &ids[1]);
        let response = request.send().promise.await.unwrap();
        assert!(!response.get().unwrap().get_each().unwrap().get(0).has_refused());

        let mut request = queue.pause_request();
        request.get().set_queue("q");
        let response = request.send().promise.await.unwrap();
        assert!(!response.get().unwrap().has_refused());
        assert_eq!(take(&queue, "q", 9).await, (vec![], vec![]), "paused");
        let mut request = queue.explain_request();
        request.get().set_id(&ids[1]);
        let response = request.send().promise.await.unwrap();
        let reasons = response.get().unwrap().get_reasons().unwrap();
        assert_eq!(reasons.get(0).get_code().unwrap(), "paused");
        let mut request = queue.resume_request();
        request.get().set_queue("q");
        request.send().promise.await.unwrap();

        let mut request = queue.configure_request();
        request.get().set_queue("q");
        request.get().set_settings(r#"{"live_max":2}"#);
        let response = request.send().promise.await.unwrap();
        assert_eq!(code(response.get().unwrap().get_refused()), "");
        let mut request = queue.enqueue_request();
        request.get().set_queue("q");
        request.get().init_items(1);
        let response = request.send().promise.await.unwrap();
        let refused = response.get().unwrap().get_each().unwrap().get(0).get_refused();
        assert_eq!(code(refused.clone()), "queue_full");
        assert!(refused.unwrap().get_retry_after_ms() > 0);
        let mut request = queue.configure_request();
        request.get().set_queue("q");
        request.get().set_settings(r#"{"live_mx":2}"#);
        let response = request.send().promise.await.unwrap();
        assert_eq!(code(response.get().unwrap().get_refused()), "malformed");

        assert_eq!(take(&queue, "q", 1).await.1, [ids[1].clone()], "the first by its priority");
        let mut request = queue.stats_request();
        request.get().set_queue("q");
        let response = request.send().promise.await.unwrap();
        let stats = response.get().unwrap();
        let all = stats.get_all().unwrap();
        assert_eq!((all.get_pending(), all.get_processing(), all.get_cancelled()), (1, 1, 0));
        assert_eq!(stats.get_places().unwrap().get(0).get_tenant().unwrap(), "default");
    });
}

/// The call ended with its connection, halfway and before its entry was written.
#[test]
fn what_an_operator_did_is_in_the_audit_when_the_operator_hangs_up() {
    const MANY: usize = 300;
    let data = Data::new("hangs-up");
    let server = Server::start(&data.0);
    let begun = std::time::Instant::now();
    run(async {
        let (plain, serving) = connect::<queue::Client>(&server.rpc).await;
        let opened = plain.open_request().send().promise.await.unwrap();
        let queue = opened.get().unwrap().get_queue().unwrap();
        let ids = add(&queue, "q", &[b"x".as_slice(); MANY]).await;
        let mut request = queue.cancel_request();
        let mut items = request.get().init_items(MANY as u32);
        (0..).zip(&ids).for_each(|(at, id)| items.set(at, id));
        let call = request.send();
        while server.stats()["cancelled"] == 0 {
            tokio::task::yield_now().await;
        }
        assert!(server.stats()["cancelled"].as_u64().unwrap() < MANY as u64, "it is under way");
        serving.abort();
        drop(call);
    });
    let written = || {
        let audit = server.get("/api/v1/audit");
        let entries = audit["entries"].as_array().unwrap().clone();
        entries.into_iter().find(|entry| entry["operation"] == "RPC cancel")
    };
    let entry = loop {
        if let Some(entry) = written() {
            break entry;
        }
        assert!(begun.elapsed().as_secs() < 60, "{} and no entry", server.stats()["cancelled"]);
    };
    assert_eq!(entry["targets"].as_array().unwrap().len(), 100, "as many as an entry names");
    assert_eq!(server.stats()["cancelled"], MANY as u64);
}

#[test]
fn a_call_that_is_refused_as_a_whole_says_so_with_a_code() {
    let data = Data::new("refused");
    let server = Server::start(&data.0);
    run(async {
        let queue = open(&server).await;
        let mut request = queue.enqueue_request();
        request.get().init_items(1);
        let response = request.send().promise.await.unwrap();
        assert_eq!(code(response.get().unwrap().get_refused()), "invalid", "no queue is named");
        let mut request = queue.enqueue_request();
        request.get().set_queue("q");
        request.get().init_items(1_001);
        let response = request.send().promise.await.unwrap();
        assert_eq!(code(response.get().unwrap().get_refused()), "invalid", "too many");
        let mut request = queue.renew_request();
        request.get().set_lease(&[7; 16]);
        let response = request.send().promise.await.unwrap();
        assert_eq!(code(response.get().unwrap().get_refused()), "lease_lost");
        let mut request = queue.claim_request();
        request.get().set_max(5_000);
        let response = request.send().promise.await.unwrap();
        assert_eq!(code(response.get().unwrap().get_refused()), "invalid");
        let mut request = queue.inspect_request();
        request.get().set_id(&[7; 16]);
        let response = request.send().promise.await.unwrap();
        assert_eq!(code(response.get().unwrap().get_refused()), "not_found");
    });
}

#[test]
fn as_much_as_a_message_may_hold_goes_through_and_more_ends_the_connection() {
    let data = Data::new("large");
    let server = Server::start(&data.0);
    run(async {
        let (queue, payload) = (open(&server).await, vec![7; 16 * 1024]);
        let ids = add(&queue, "q", &vec![&payload[..]; 1_000]).await;
        assert_eq!(ids.len(), 1_000);
        let (_, taken) = take(&queue, "q", 500).await;
        assert_eq!(taken, ids[..500]);
        let other = open(&server).await;
        let mut request = queue.enqueue_request();
        request.get().set_queue(&*"q".repeat(17 * 1024 * 1024));
        assert!(request.send().promise.await.is_err());
        assert_eq!(take(&other, "q", 1).await.1.len(), 1, "others go on");
    });
}
