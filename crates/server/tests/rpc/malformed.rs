//! Frames that no client would send: the server bears them, and nobody else notices.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use capnp_rpc::rpc_capnp::{call, message, return_};

use crate::bed::{Data, Server, run};
use crate::messages::{SEED, answer_to, bootstrap, call, call_to, frame, heard, messages, nothing};
use crate::seed_capnp::seed_queue;

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// One conversation, by what is wrong with it.
struct Case {
    class: &'static str,
    bytes: Vec<u8>,
}

fn poll(question: u32) -> Vec<u8> {
    call(question, SEED, 2, |params| {
        let params: seed_queue::poll_params::Builder<'_> = params.init_as();
        params.init_req().set_lease_validity_secs(60);
    })
}

fn extend(question: u32, lease: &[u8]) -> Vec<u8> {
    call(question, SEED, 3, |params| {
        let params: seed_queue::extend_params::Builder<'_> = params.init_as();
        let mut req = params.init_req();
        req.set_lease(lease);
        req.set_lease_validity_secs(60);
    })
}

fn add(question: u32) -> Vec<u8> {
    call(question, SEED, 0, |params| {
        let params: seed_queue::add_params::Builder<'_> = params.init_as();
        let mut items = params.init_req().init_items(3);
        for at in 0..3 {
            items.reborrow().get(at).set_contents(b"never to be seen");
        }
    })
}

/// What follows a bootstrap.
fn after_bootstrap(rest: &[u8]) -> Vec<u8> {
    [&bootstrap(0)[..], rest].concat()
}

fn all() -> Vec<Case> {
    let mut random = Random(0x5eed_0002);
    let mut cases = Vec::new();
    let mut push = |class, bytes| cases.push(Case { class, bytes });
    for _ in 0..60 {
        let whole = add(1);
        push("cut short", after_bootstrap(&whole[..random.below(whole.len() - 1) + 1]));
    }
    for _ in 0..40 {
        push("random bytes", (0..random.below(300) + 1).map(|_| random.next() as u8).collect());
        let noise: Vec<u8> = (0..random.below(300) + 1).map(|_| random.next() as u8).collect();
        push("random bytes after a good start", after_bootstrap(&noise));
    }
    for (segments, words) in [(0, u32::MAX), (u32::MAX, 1), (511, 1), (512, 1), (99_999, 7), (1, 0)]
    {
        let header = [segments.to_le_bytes(), words.to_le_bytes()].concat();
        push("a header that cannot be", header.clone());
        push("a header that cannot be, and words", [&header[..], &[0; 4_096]].concat());
        push("a header that cannot be, later", after_bootstrap(&header));
    }
    for _ in 0..70 {
        for good in [poll(1), extend(1, &[7; 16])] {
            push("a word is another", after_bootstrap(&changed(&good, &mut random)));
            push("a bit is flipped", after_bootstrap(&flipped(&good, &mut random)));
        }
    }
    // Every kind of message there is, one or two there are not, and what may hang on them.
    for kind in (0..16).chain([200, u16::MAX]) {
        for depth in [1, 30, 100, 10_000] {
            push("nested deeply", after_bootstrap(&nested(kind, depth)));
        }
        push("read again and again", after_bootstrap(&amplified(kind)));
        push("a list of nothings", after_bootstrap(&empty_structs(kind)));
    }
    protocol(&mut push);
    cases
}

/// One word after the header is something else.
fn changed(good: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut bytes, word) = (good.to_vec(), random.below(good.len() / 8 - 1) + 1);
    // Pointers of every kind: struct, list, far, and what is none; near or anywhere.
    let near = random.next() & 0x000f_000f_0000_001f;
    let value = if random.below(2) == 0 { near } else { random.next() };
    bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn flipped(good: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut bytes, at) = (good.to_vec(), random.below(good.len()));
    bytes[at] ^= 1 << random.below(8);
    bytes
}

/// A message of one segment.
fn segment(words: &[u64]) -> Vec<u8> {
    let mut bytes = [0_u32.to_le_bytes(), (words.len() as u32).to_le_bytes()].concat();
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes
}

/// Points to a struct right behind: so many words of data, so many pointers.
const fn to_struct(data: u64, pointers: u64) -> u64 {
    data << 32 | pointers << 48
}

/// Points to a list: so many words further, of elements of this size, so many.
const fn to_list(offset: u64, size: u64, count: u64) -> u64 {
    1 | offset << 2 | size << 32 | count << 35
}

/// A message of some kind from which a chain of structs hangs.
fn nested(kind: u16, depth: usize) -> Vec<u8> {
    let mut words = vec![to_struct(1, 1), u64::from(kind)];
    words.resize(words.len() + depth, to_struct(0, 1));
    words.push(0);
    segment(&words)
}

/// One from which a list hangs that leads to the same bytes many times.
fn amplified(kind: u16) -> Vec<u8> {
    let (times, bytes) = (2_000_u64, 100_000_u64);
    let mut words = vec![to_struct(1, 1), u64::from(kind), to_list(0, 6, times)];
    words.extend((0..times).map(|at| to_list(times - at - 1, 2, bytes)));
    words.resize(words.len() + bytes as usize / 8, 7);
    segment(&words)
}

/// One from which a list of very many structs without anything in them hangs.
fn empty_structs(kind: u16) -> Vec<u8> {
    let (count, inline) = ((1 << 29) - 1, 7);
    segment(&[to_struct(1, 1), u64::from(kind), to_list(0, inline, 0), count << 2])
}

/// What is well formed and still cannot be: questions, answers and capabilities that are not there.
fn protocol(push: &mut impl FnMut(&'static str, Vec<u8>)) {
    for id in [0, 1, 7, u32::MAX] {
        push("a call of what is not there", {
            let to = |mut to: capnp_rpc::rpc_capnp::message_target::Builder<'_>| {
                to.set_imported_cap(id);
            };
            after_bootstrap(&call_to(1, SEED, 2, to, nothing))
        });
        push("a call of an answer that is not there", {
            let to = |to: capnp_rpc::rpc_capnp::message_target::Builder<'_>| {
                to.init_promised_answer().set_question_id(id.max(1));
            };
            after_bootstrap(&call_to(9, SEED, 2, to, nothing))
        });
        push("the end of a question that nobody asked", {
            after_bootstrap(&frame(|message| message.init_finish().set_question_id(id)))
        });
        push("an answer that nobody asked for", {
            after_bootstrap(&frame(|message| {
                let mut returned: return_::Builder<'_> = message.init_return();
                returned.set_answer_id(id);
                returned.init_exception().set_reason("why not");
            }))
        });
        push("a release of what is not held", {
            after_bootstrap(&frame(|message| {
                let mut release = message.init_release();
                release.set_id(id);
                release.set_reference_count(u32::MAX);
            }))
        });
        push("a promise that nobody made is kept", {
            after_bootstrap(&frame(|message| message.init_resolve().set_promise_id(id)))
        });
        push("an embargo that nobody imposed is lifted", {
            after_bootstrap(&frame(|message| {
                message.init_disembargo().init_context().set_receiver_loopback(id);
            }))
        });
        push("an embargo on what is not there", {
            after_bootstrap(&frame(|message| {
                let mut disembargo = message.init_disembargo();
                disembargo.reborrow().init_target().set_imported_cap(id);
                disembargo.init_context().set_sender_loopback(id);
            }))
        });
        push("a question asked twice", after_bootstrap(&[bootstrap(id), bootstrap(id)].concat()));
        push("results that go elsewhere", {
            after_bootstrap(&frame(|message| {
                let mut call: call::Builder<'_> = message.init_call();
                call.set_question_id(id.max(1));
                call.set_interface_id(SEED);
                call.set_method_id(3);
                call.reborrow().init_target().init_promised_answer();
                call.init_send_results_to().set_yourself(());
            }))
        });
        push("capabilities that are not there", {
            after_bootstrap(&frame(|message| {
                let mut call: call::Builder<'_> = message.init_call();
                call.set_question_id(1);
                call.set_interface_id(SEED);
                call.set_method_id(3);
                call.reborrow().init_target().init_promised_answer();
                let mut table = call.init_params().init_cap_table(3);
                table.reborrow().get(0).set_receiver_hosted(id);
                table.reborrow().get(1).set_sender_promise(id);
                table.reborrow().get(2).init_receiver_answer().set_question_id(id);
            }))
        });
    }
    push("an abort", frame(|message| message.init_abort().set_reason("enough")));
}

#[test]
fn frames_that_cannot_be_meant_harm_nobody() {
    let data = Data::new("malformed");
    let server = Server::start(&data.0);
    run(async {
        let client = server.client().await;
        client.adds(&[(b"held", 0)]).await.unwrap();
        let held = client.polls(3_600, 1, 0).await.unwrap();
        let before = server.stats();
        let cases = all();
        assert!(cases.len() >= 300, "only {}", cases.len());
        let classes: BTreeSet<_> = cases.iter().map(|case| case.class).collect();
        eprintln!("{} frames of {} classes", cases.len(), classes.len());
        for (at, Case { class, bytes }) in cases.iter().enumerate() {
            let mut stream = server.raw();
            // The server may end the connection before it has taken everything.
            let _taken = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
            let said = heard(&mut stream);
            for answer in messages(&said) {
                let message: message::Reader<'_> = answer.get_root().unwrap();
                message.which().unwrap_or_else(|_| panic!("case {at}, {class}: no message"));
            }
            let leaks = said.windows(16).any(|window| window == held.lease);
            assert!(!leaks, "case {at}, {class}: another's lease");
            if at % 20 == 0 {
                assert!(client.extends(&held.lease, 3_600).await.unwrap(), "case {at}, {class}");
            }
        }
        assert!(client.extends(&held.lease, 3_600).await.unwrap());
        assert_eq!(server.stats(), before, "nothing was added, taken or removed");
        server.until_waiting(0).await;
        // The same frame as was cut short, whole: this is how it would show.
        let mut stream = server.raw();
        stream.write_all(&after_bootstrap(&add(1))).unwrap();
        answer_to(&mut stream, 1);
        assert_ne!(server.stats(), before);
        assert!(client.removes(&held.items[0].1, &held.lease).await.unwrap());
    });
    let said = server.said();
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn whoever_speaks_http_is_sent_to_the_other_port() {
    let data = Data::new("strayed");
    let server = Server::start(&data.0);
    for method in ["GET", "POST", "DELETE"] {
        let mut stream = server.raw();
        write!(stream, "{method} /api/v1/health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").expect("an answer");
        assert!(head.starts_with("HTTP/1.1 400 "), "{said}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{said}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(problem["detail"].as_str().unwrap().contains("7117"), "{problem}");
    }
}

#[test]
fn an_unknown_call_is_refused_and_the_connection_goes_on() {
    let data = Data::new("unknown");
    let server = Server::start(&data.0);
    let mut stream = server.raw();
    stream.write_all(&bootstrap(0)).unwrap();
    for (question, (interface, method)) in
        (1..).zip([(SEED, 6), (SEED, u16::MAX), (1, 0), (u64::MAX, 3)])
    {
        stream.write_all(&call(question, interface, method, nothing)).unwrap();
        let answer = answer_to(&mut stream, question);
        let message::Return(Ok(returned)) =
            answer.get_root::<message::Reader<'_>>().unwrap().which().unwrap()
        else {
            panic!("it is an answer")
        };
        let return_::Exception(Ok(why)) = returned.which().unwrap() else {
            panic!("{interface:x} {method} is not known")
        };
        assert!(why.get_reason().unwrap().to_str().unwrap().contains("not implemented"));
    }
    // A wrong length is refused as well, and a right one is answered.
    stream.write_all(&extend(9, &[7; 15])).unwrap();
    let answer = answer_to(&mut stream, 9);
    let message: message::Reader<'_> = answer.get_root().unwrap();
    let message::Return(Ok(returned)) = message.which().unwrap() else { panic!("an answer") };
    assert!(matches!(returned.which().unwrap(), return_::Exception(_)));
    stream.write_all(&extend(10, &[7; 16])).unwrap();
    let answer = answer_to(&mut stream, 10);
    let message: message::Reader<'_> = answer.get_root().unwrap();
    let message::Return(Ok(returned)) = message.which().unwrap() else { panic!("an answer") };
    assert!(matches!(returned.which().unwrap(), return_::Results(_)));
}
