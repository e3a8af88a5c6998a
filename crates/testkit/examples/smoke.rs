use std::sync::Arc;
use std::time::Instant;
use windrow_core::command::*;
use windrow_core::item::{Body, Payload};
use windrow_core::ports::*;
use windrow_core::{Answer, Timestamp};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::{Embedded, Options};

fn now() -> Timestamp {
    Timestamp(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64)
}
fn item(i: u64, tenant: &Arc<str>, queue: &Arc<str>) -> NewItem {
    let mut b = Body::new(tenant.clone(), queue.clone());
    b.key = Some(format!("key-{i:016}"));
    b.payload = Payload::Inline(vec![7; 256]);
    NewItem::new(b)
}
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let clients: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let batch: usize = std::env::args().nth(3).unwrap().parse().unwrap();
    let _ = std::fs::remove_dir_all(&dir);
    let store = Embedded::open(Arc::new(RealDisk::open(&dir).unwrap()), Options::default()).unwrap().run().unwrap();
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let secs = 2.0;
    let t = Instant::now();
    let handle: Embedded = (*store).clone();
    let counts: Vec<u64> = rt.block_on(async {
        let mut hs = vec![];
        for c in 0..clients {
            let s = handle.clone();
            hs.push(tokio::spawn(async move {
                let (te, q): (Arc<str>, Arc<str>) = ("tenant".into(), "queue".into());
                let mut n = 0u64;
                while t.elapsed().as_secs_f64() < secs {
                    let items = (0..batch).map(|i| item((c as u64) << 40 | (n + i as u64), &te, &q)).collect();
                    let a = s.submit(vec![Command::Enqueue(items).into()], Now::Given(now())).await.unwrap();
                    assert!(matches!(&a[0], Answer::Enqueued(v) if v.iter().all(|r| r.is_ok())));
                    n += batch as u64;
                }
                n
            }));
        }
        let mut v = vec![];
        for h in hs { v.push(h.await.unwrap()) }
        v
    });
    let total: u64 = counts.iter().sum();
    println!("enqueue {}x{}: {:.0}/s", batch, clients, total as f64 / t.elapsed().as_secs_f64());
    let t = Instant::now();
    let counts: Vec<u64> = rt.block_on(async {
        let mut hs = vec![];
        for c in 0..clients {
            let s = handle.clone();
            hs.push(tokio::spawn(async move {
                let mut n = 0u64;
                let cl = Claim::new(format!("worker-{c}"), "queue", batch);
                while t.elapsed().as_secs_f64() < secs {
                    let a = s.submit(vec![Command::Claim(cl.clone()).into()], Now::Given(now())).await.unwrap();
                    let Answer::Claimed(Some(g)) = &a[0] else { break };
                    let items = g.items.iter().map(|w| (w.item.id, Outcome::complete())).collect();
                    let a = s.submit(vec![Command::Settle{lease: g.lease, items}.into()], Now::Given(now())).await.unwrap();
                    assert!(matches!(&a[0], Answer::Settled(v) if v.iter().all(|r| r.is_ok())), "{a:?}");
                    n += g.items.len() as u64;
                }
                n
            }));
        }
        let mut v = vec![];
        for h in hs { v.push(h.await.unwrap()) }
        v
    });
    let total: u64 = counts.iter().sum();
    println!("claim+settle {}x{}: {:.0}/s", batch, clients, total as f64 / t.elapsed().as_secs_f64());
    drop(rt);
    drop(store);
    let t = Instant::now();
    let s = Embedded::open(Arc::new(RealDisk::open(&dir).unwrap()), Options::default());
    println!("reopen {:?} {:?}", t.elapsed(), s.map(|s| format!("{s:?}")).map_err(|e| e.to_string()));
}
