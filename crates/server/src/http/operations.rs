//! Everything that can be asked over HTTP.

use axum::http::Method;
use axum::routing::{delete, get, post, put};
use windrow_wire::answer::{Each, Enqueued, Settled};
use windrow_wire::claim::{Claim, Granted, ProgressOf, Renew, Renewed};
use windrow_wire::event::Moment;
use windrow_wire::item::{Explanation, Item};
use windrow_wire::list::Page;
use windrow_wire::new::NewItem;
use windrow_wire::schedule::{NewSchedule, Ran, Schedule};
use windrow_wire::settings::Settings;
use windrow_wire::settle::Settle;
use windrow_wire::webhook::{NewWebhook, Tested, Webhook};

use super::bulk::{BeginOperation, Forecast, OperationShown};
use super::drains::WorkerAtWork;
use super::items::{Cancelled, Lines, Prioritise, Removed, Retried, Retry, Tree};
use super::list::QueueShown;
use super::queues::{Scope, Stands};
use super::reply::Done;
use super::schedules::Preview;
use super::status::Stats;
use super::table::{LetsIn, Operation, Role};
use super::{
    audit, bulk, claims, drains, events, items, list, queues, schedules, status, tokens, webhooks,
};
use crate::health::Health;

/// The table. A route that is not here does not exist.
pub(super) fn all() -> Vec<Operation> {
    let mut all = of_items();
    all.extend(of_operators());
    all.extend(of_workers());
    all.extend(of_queues());
    all.extend(of_bulk());
    all.extend(of_schedules());
    all.extend(of_events());
    all.extend(of_webhooks());
    all.extend(super::blobs::operations());
    all.extend(super::backups::operations());
    all.extend(super::resources::operations());
    all.extend(super::workers::operations());
    all.extend(super::drains::operations());
    all.extend(super::flow::operations());
    all.extend(super::failures::operations());
    all.extend(super::stages::operations());
    all.extend(super::sweep::operations());
    all.extend(super::views::operations());
    all.extend(super::admin::operations());
    all.extend(super::system::operations());
    all.extend(super::documents::operations());
    all.extend(super::sources::operations());
    all.extend(of_admins());
    all
}

fn of_items() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::POST,
            "/queues/{queue}/items",
            Role::Producer,
            "Enqueue one item, an array of them, or lines of them (application/x-ndjson). One is \
             answered with itself, several with a list in the same order.",
            post(items::enqueue),
        )
        .needs::<NewItem>()
        .also_takes::<Vec<NewItem>>("application/json")
        .also_takes::<Lines>("application/x-ndjson")
        .repeatable()
        .gives::<Enqueued>(201)
        .also_gives::<Enqueued>(200)
        .also_gives::<Vec<Each<Enqueued>>>(200),
        of(
            Method::GET,
            "/queue",
            Role::Viewer,
            "Items, newest first, without their bodies, page by page.",
            get(list::list),
        )
        .asks(list::PARAMETERS)
        .gives::<Page>(200),
        of(
            Method::POST,
            "/items",
            Role::Producer,
            "The same for items that each name their queue: one, an array, or lines.",
            post(items::enqueue_anywhere),
        )
        .needs::<NewItem>()
        .also_takes::<Vec<NewItem>>("application/json")
        .also_takes::<Lines>("application/x-ndjson")
        .repeatable()
        .gives::<Enqueued>(201)
        .also_gives::<Enqueued>(200)
        .also_gives::<Vec<Each<Enqueued>>>(200),
        of(
            Method::GET,
            "/queue/stats",
            Role::Viewer,
            "How many items have each status, in all and by queue and tenant.",
            get(status::stats),
        )
        .asks(&[("queue", "only this queue"), ("tenant", "only this tenant (also user_id)")])
        .gives::<Stats>(200),
        of(Method::GET, "/queue/{id}", Role::Viewer, "Everything about an item.", get(items::show))
            .gives::<Item>(200),
        of(
            Method::GET,
            "/queue/{id}/explain",
            Role::Viewer,
            "Why an item is where it is, and what would move it on.",
            get(items::explain),
        )
        .gives::<Explanation>(200),
        of(
            Method::GET,
            "/queue/{id}/tree",
            Role::Viewer,
            "An item with what it knows of its children, and a page of them.",
            get(items::tree),
        )
        .asks(&[("from", "the first ordinal to show"), ("limit", "how many; 50, at most 200")])
        .gives::<Tree>(200),
    ]
}

fn of_operators() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::POST,
            "/queue/{id}/prioritise",
            Role::Operator,
            "Give an item that has not ended another priority.",
            post(items::prioritise),
        )
        .needs::<Prioritise>(),
        of(
            Method::POST,
            "/queue/{id}/cancel",
            Role::Operator,
            "End an item that has not ended, with everything below it.",
            post(items::cancel),
        )
        .gives::<Cancelled>(200),
        of(
            Method::POST,
            "/queue/{id}/retry",
            Role::Operator,
            "Run an ended item again: as a clone, or, with mode=reset, the same failed or \
             cancelled one. Children of a tree are reset.",
            post(items::retry),
        )
        .asks(&[
            ("mode", "clone or reset, if no body says so"),
            ("from_stage", "the stage to begin with, if no body says so"),
        ])
        .takes::<Retry>()
        .gives::<Retried>(200),
        of(
            Method::POST,
            "/queue/{id}/forecast",
            Role::Operator,
            "Whether a verb would be done to an item: answered as the verb itself would be if it \
             were refused. Changes nothing.",
            post(bulk::forecast),
        )
        .needs::<Forecast>()
        .only_looks(),
        of(
            Method::DELETE,
            "/queue/{id}",
            Role::Operator,
            "Remove an ended item, with everything below it, for good.",
            delete(items::remove),
        )
        .gives::<Removed>(200),
    ]
}

fn of_workers() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::POST,
            "/claims",
            Role::Worker,
            "Take work under a lease, waiting for some if there is none.",
            post(claims::claim),
        )
        .takes::<Claim>()
        .repeatable()
        .gives::<Granted>(200),
        of(
            Method::POST,
            "/leases/{lease}/renew",
            Role::Worker,
            "Keep a lease for longer. Says what it still holds.",
            post(claims::renew),
        )
        .takes::<Renew>()
        .gives::<Renewed>(200),
        of(
            Method::POST,
            "/leases/{lease}/progress",
            Role::Worker,
            "Say how far work is.",
            post(claims::progress),
        )
        .needs::<ProgressOf>()
        .gives::<Vec<Each<claims::Told>>>(200),
        of(
            Method::POST,
            "/leases/{lease}/settle",
            Role::Worker,
            "Say how attempts ended. Each item is answered for.",
            post(claims::settle),
        )
        .needs::<Settle>()
        .repeatable()
        .gives::<Vec<Each<Settled>>>(200),
        of(
            Method::GET,
            "/workers",
            Role::Viewer,
            "The workers that ask this server for work or hold a lease, with what they run, and \
             those that are drained.",
            get(drains::workers),
        )
        .gives::<Vec<WorkerAtWork>>(200),
        of(
            Method::GET,
            "/health",
            Role::Viewer,
            "Whether work gets done: each check is green, yellow or red, with what to do.",
            get(status::health),
        )
        .lets_in(LetsIn::Watchers)
        .gives::<Health>(200),
    ]
}

fn of_queues() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::GET,
            "/queues",
            Role::Viewer,
            "Every queue that has items or settings or is paused: counts, settings and pauses.",
            get(list::queues),
        )
        .gives::<Vec<QueueShown>>(200),
        of(
            Method::POST,
            "/queues/{queue}/pause",
            Role::Operator,
            "Hand out nothing of a queue, or of a stage or tenant of it.",
            post(queues::pause),
        )
        .takes::<Scope>()
        .gives::<Stands>(200),
        of(
            Method::POST,
            "/queues/{queue}/resume",
            Role::Operator,
            "Hand out again what a pause with the same scope held back.",
            post(queues::resume),
        )
        .takes::<Scope>()
        .gives::<Stands>(200),
        of(
            Method::GET,
            "/queues/{queue}/settings",
            Role::Viewer,
            "How a queue behaves: what was said, and what holds without being said.",
            get(list::settings),
        )
        .gives::<Settings>(200),
        of(
            Method::PUT,
            "/queues/{queue}/settings",
            Role::Operator,
            "Say how a queue behaves. What is left out is as it is by default.",
            put(queues::configure),
        )
        .needs::<Settings>()
        .gives::<Done>(200),
        of(
            Method::DELETE,
            "/queues/{queue}/settings",
            Role::Operator,
            "Take back what was said of how a queue behaves: it is as by default.",
            delete(queues::reset),
        )
        .gives::<Settings>(200),
    ]
}

fn of_bulk() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::POST,
            "/operations",
            Role::Operator,
            "Retry, cancel, delete or prioritise what a filter admits, in the background.",
            post(bulk::begin),
        )
        .needs::<BeginOperation>()
        .gives::<OperationShown>(202),
        of(
            Method::GET,
            "/operations",
            Role::Viewer,
            "Operations that are under way, and the last that were, newest first.",
            get(bulk::list),
        )
        .gives::<Vec<OperationShown>>(200),
        of(
            Method::GET,
            "/operations/{id}",
            Role::Viewer,
            "How far an operation is.",
            get(bulk::show),
        )
        .gives::<OperationShown>(200),
        of(
            Method::POST,
            "/operations/{id}/cancel",
            Role::Operator,
            "Stop an operation after the items that are under way. What it did stays done.",
            post(bulk::cancel),
        )
        .gives::<OperationShown>(200),
    ]
}

const TENANT: (&str, &str) = ("tenant", "whose it is (also user_id); `default` if left out");

fn of_schedules() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::GET,
            "/schedules",
            Role::Viewer,
            "Schedules, with their last and next runs.",
            get(schedules::list),
        )
        .asks(&[("tenant", "only this tenant's (also user_id)")])
        .gives::<Vec<Schedule>>(200),
        of(
            Method::GET,
            "/schedules/{name}",
            Role::Viewer,
            "A schedule, with its last and next runs.",
            get(schedules::show),
        )
        .asks(&[TENANT])
        .gives::<Schedule>(200),
        of(
            Method::PUT,
            "/schedules/{name}",
            Role::Operator,
            "Enqueue an item by the clock. Answers with the next runs. With If-Match, only if \
             its revision is still the one that was read.",
            put(schedules::put),
        )
        .asks(&[TENANT])
        .needs::<NewSchedule>()
        .gives::<Schedule>(200),
        of(
            Method::DELETE,
            "/schedules/{name}",
            Role::Operator,
            "Take a schedule away. Items that it enqueued stay.",
            delete(schedules::remove),
        )
        .asks(&[TENANT])
        .gives::<Done>(200),
        of(
            Method::POST,
            "/schedules/{name}/run",
            Role::Operator,
            "Run a schedule now. Its next run comes as it would have.",
            post(schedules::run),
        )
        .asks(&[TENANT])
        .gives::<Ran>(200),
        of(
            Method::GET,
            "/schedules/{name}/preview",
            Role::Viewer,
            "When a schedule will run.",
            get(schedules::preview),
        )
        .asks(&[TENANT, ("count", "how many; 10, at most 1,000")])
        .gives::<Preview>(200),
    ]
}

fn of_events() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::GET,
            "/events",
            Role::Viewer,
            "What happens to items, as it happens, by server-sent events. Last-Event-ID resumes; \
             an event `reset` says that something was missed and all is to be read again.",
            get(events::stream),
        )
        .asks(&[
            ("queue", "only these queues, separated by commas"),
            ("tenant", "only these tenants (also user_id)"),
            ("status", "only changes to these statuses"),
            ("item", "only these items"),
            ("last_event_id", "where a browser cannot send the header"),
        ])
        .streams(),
        of(
            Method::GET,
            "/queue/{id}/events",
            Role::Viewer,
            "The life of an item, as far as it is kept. With Accept: text/event-stream, what \
             happens to it from now on.",
            get(events::of_item),
        )
        .gives::<Vec<Moment>>(200)
        .streams(),
    ]
}

fn of_webhooks() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::GET,
            "/webhooks",
            Role::Operator,
            "Webhooks: who is told when items end.",
            get(webhooks::list),
        )
        .gives::<Vec<Webhook>>(200),
        of(
            Method::GET,
            "/webhooks/{name}",
            Role::Operator,
            "A webhook, without its secret.",
            get(webhooks::show),
        )
        .gives::<Webhook>(200),
        of(
            Method::PUT,
            "/webhooks/{name}",
            Role::Operator,
            "Tell an address when items of some queues end. The secret of a new one is in the \
             answer, and never again.",
            put(webhooks::put),
        )
        .needs::<NewWebhook>()
        .gives::<Webhook>(200),
        of(
            Method::DELETE,
            "/webhooks/{name}",
            Role::Operator,
            "Take a webhook away. What waits to be delivered to it is skipped.",
            delete(webhooks::remove),
        )
        .gives::<Done>(200),
        of(
            Method::POST,
            "/webhooks/{name}/test",
            Role::Operator,
            "Send something to a webhook at once, and say how that went.",
            post(webhooks::test),
        )
        .gives::<Tested>(200),
    ]
}

fn of_admins() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::GET,
            "/caller",
            Role::Viewer,
            "Who asks: the name, the role and the tenant of the token.",
            get(tokens::caller),
        )
        .gives::<tokens::Asker>(200),
        of(Method::GET, "/tokens", Role::Admin, "The tokens, without secrets.", get(tokens::list))
            .gives::<Vec<tokens::Shown>>(200),
        of(
            Method::POST,
            "/tokens",
            Role::Admin,
            "Make a token. Its text is shown now and never again.",
            post(tokens::create),
        )
        .needs::<tokens::NewToken>()
        .gives::<tokens::Made>(201),
        of(
            Method::DELETE,
            "/tokens/{token}",
            Role::Admin,
            "Revoke a token by its id. It opens nothing any more.",
            delete(tokens::revoke),
        )
        .gives::<Done>(200),
        of(
            Method::GET,
            "/audit",
            Role::Admin,
            "What operators and admins did, newest first.",
            get(audit::list),
        )
        .asks(&[
            ("caller", "only what this one did"),
            ("operation", "only this, such as POST /queue/{id}/cancel"),
            ("target", "only what was done to this"),
            ("before", "where the page before ended"),
            ("limit", "how many; 50, at most 200"),
        ])
        .gives::<audit::Deeds>(200),
    ]
}
