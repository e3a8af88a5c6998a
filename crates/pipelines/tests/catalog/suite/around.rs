//! Pictures of the graph: who is around an entity, who is found by name, where one is mentioned.

use windrow_pipelines::catalog::{
    Called, EntityFilter, EntityId, MentionCursor, NewEntity, NewGraph, Node, Scope,
};

use crate::bed::{Bed, cases, is_bad, page, scope};

fn id(name: &str) -> EntityId {
    EntityId::of(&scope(), &Called::new("name", name))
}

fn names(nodes: &[Node]) -> Vec<(&str, u32)> {
    nodes.iter().map(|node| (node.name.as_str(), node.distance)).collect()
}

cases![
    a_picture_grows_layer_by_layer_until_it_is_full,
    a_picture_says_what_relates_its_entities_and_where_that_stands,
    a_picture_of_one_kind_has_no_other,
    the_most_mentioned_and_the_kinds_follow_from_what_is_live,
    entities_are_found_by_parts_of_their_names,
    mentions_are_listed_in_pages_by_document_and_place,
    pictures_show_only_what_is_live_and_the_tenants_own,
    a_crowded_entity_is_cut_and_stays_quick
];

async fn a_picture_grows_layer_by_layer_until_it_is_full(bed: &Bed) {
    bed.ingest("a.md", &["Ada then Bob.\n\nAda then Bob again.\n\nAda then Cid.\n\nBob, Dan."])
        .await;
    bed.ingest("b.md", &["Dan and Eve.", "Fay alone."]).await;
    let around = bed.catalog.around("t", id("ada"), None, 10).await.unwrap().unwrap();
    let want = [("Ada", 0), ("Bob", 1), ("Cid", 1), ("Dan", 2), ("Eve", 3)];
    assert_eq!((names(&around.nodes), around.is_cut), (want.to_vec(), false));
    assert_eq!(around.nodes[0].mentions, 3);
    assert_eq!(around.links.len(), 4);
    let few = bed.catalog.around("t", id("ada"), None, 2).await.unwrap().unwrap();
    assert_eq!((names(&few.nodes), few.is_cut), (want[..2].to_vec(), true));
    assert_eq!(few.links.len(), 1);
    let alone = bed.catalog.around("t", id("fay"), None, 10).await.unwrap().unwrap();
    assert_eq!((names(&alone.nodes), alone.is_cut), (vec![("Fay", 0)], false));
    assert_eq!(bed.catalog.around("t", id("nobody"), None, 10).await.unwrap(), None);
}

async fn a_picture_says_what_relates_its_entities_and_where_that_stands(bed: &Bed) {
    let at = bed.ingest("a.md", &["Nothing.", "Ada then Bob.\n\nAda, Bob, at last."]).await;
    let around = bed.catalog.around("t", id("bob"), None, 10).await.unwrap().unwrap();
    let [link] = &around.links[..] else { panic!("{around:?}") };
    assert_eq!((link.source, link.target), (id("ada"), id("bob")));
    assert_eq!((link.kind.as_str(), link.weight), ("before", 2.0));
    assert_eq!(link.description, "Ada then Bob.");
    assert_eq!(link.said_in.len(), 2);
    let chunks = bed.catalog.chunks("t", page(at, 2)).await.unwrap();
    for said in &link.said_in {
        assert_eq!(
            (said.document, said.page, said.name.as_str()),
            (at.document, 2, "a.md by name")
        );
        assert!(chunks.iter().any(|chunk| chunk.id == said.chunk));
    }
}

async fn a_picture_of_one_kind_has_no_other(bed: &Bed) {
    let at = bed.ingest("a.md", &["Ada then Bob."]).await;
    let chunk = bed.catalog.chunks("t", page(at, 1)).await.unwrap()[0].id;
    let entity = |kind: &str, name: &str| NewEntity {
        called: Called::new(kind, name),
        description: String::new(),
        score: 1.0,
    };
    let by = |target: &NewEntity| windrow_pipelines::catalog::NewRelationship {
        source: Called::new("name", "Ada"),
        target: target.called.clone(),
        kind: "in".into(),
        description: String::new(),
        weight: 1.0,
    };
    let entities = vec![entity("name", "Ada"), entity("Old Place", "Rome"), entity("name", "Bob")];
    let relationships = vec![by(&entities[1]), by(&entities[2])];
    bed.catalog.put_graph(chunk, NewGraph { entities, relationships }).await.unwrap();
    let of = |kind| async move {
        let around = bed.catalog.around("t", id("ada"), kind, 10).await.unwrap().unwrap();
        around.nodes.into_iter().map(|node| node.name).collect::<Vec<_>>()
    };
    assert_eq!(of(None).await.len(), 3);
    assert_eq!(of(Some("old-PLACE")).await, ["Ada", "Rome"]);
    assert_eq!(of(Some("name")).await, ["Ada", "Bob"]);
    let kinds = bed.catalog.prominent(EntityFilter::of("t")).await.unwrap().kinds;
    assert_eq!(kinds, [("name".to_owned(), 2), ("old place".to_owned(), 1)]);
    let places = EntityFilter { kind: Some("Old place".into()), ..EntityFilter::of("t") };
    let most = bed.catalog.prominent(places).await.unwrap().most;
    assert_eq!(most, Some(EntityId::of(&scope(), &Called::new("old place", "rome"))));
}

async fn the_most_mentioned_and_the_kinds_follow_from_what_is_live(bed: &Bed) {
    let all = || bed.catalog.prominent(EntityFilter::of("t"));
    assert_eq!(all().await.unwrap(), Default::default());
    bed.ingest("a.md", &["Ada.\n\nAda, Bob."]).await;
    bed.ingest_in(&Scope::new("t", "other"), "b.md", &["Cid.\n\nCid.\n\nCid."]).await;
    bed.built_in(&scope(), "c.md", &["Dan.\n\nDan.\n\nDan.\n\nDan."]).await;
    let found = all().await.unwrap();
    let cid = EntityId::of(&Scope::new("t", "other"), &Called::new("name", "cid"));
    assert_eq!((found.most, found.is_cut), (Some(cid), false));
    assert_eq!(found.kinds, [("name".to_owned(), 3)], "nobody is live who is only being read");
    let here = EntityFilter { collection: Some("c".into()), ..EntityFilter::of("t") };
    let found = bed.catalog.prominent(here).await.unwrap();
    assert_eq!((found.most, &found.kinds[..]), (Some(id("ada")), &[("name".to_owned(), 2)][..]));
}

async fn entities_are_found_by_parts_of_their_names(bed: &Bed) {
    bed.ingest("a.md", &["Lovelace met Love and Glove."]).await;
    bed.ingest_in(&Scope::new("t", "other"), "b.md", &["Lovely and Clover."]).await;
    bed.built_in(&scope(), "c.md", &["Loveless."]).await;
    let found = |filter: EntityFilter, part: &'static str, limit| async move {
        let found = bed.catalog.entities_named(filter, part, limit).await.unwrap();
        found.into_iter().map(|node| node.name).collect::<Vec<_>>()
    };
    let all = EntityFilter::of("t");
    let want = ["Love", "Lovelace", "Lovely", "Glove", "Clover"];
    assert_eq!(found(all.clone(), " LOVE! ", 10).await, want);
    assert_eq!(found(all.clone(), "love", 1).await, ["Love"]);
    let other = EntityFilter { collection: Some("other".into()), ..all.clone() };
    assert_eq!(found(other, "love", 10).await, ["Lovely", "Clover"]);
    let kind = EntityFilter { kind: Some("place".into()), ..all.clone() };
    assert!(found(kind, "love", 10).await.is_empty());
    for nothing in ["%", "_", "hate", ""] {
        assert!(found(all.clone(), nothing, 10).await.is_empty(), "{nothing:?}");
    }
    is_bad(bed.catalog.entities_named(all, "a\0b", 10).await, "NUL");
}

async fn mentions_are_listed_in_pages_by_document_and_place(bed: &Bed) {
    bed.ingest("a.md", &["Ada one.\n\nAda two.", "Ada three.\n\nBob."]).await;
    bed.ingest("b.md", &["Nobody.", "Ada four."]).await;
    let (mut texts, mut after) = (Vec::new(), MentionCursor::default());
    loop {
        let some = bed.catalog.mentioned_in("t", id("ada"), after, 2).await.unwrap();
        let Some(last) = some.last() else { break };
        assert!(some.len() <= 2);
        after = last.cursor();
        texts.extend(some.into_iter().map(|one| (one.document, one.page.number, one.text)));
    }
    let want = [
        ("a.md by name", 1, "Ada one."),
        ("a.md by name", 1, "Ada two."),
        ("a.md by name", 2, "Ada three."),
        ("b.md by name", 2, "Ada four."),
    ];
    let want = want.map(|(name, page, text)| (name.to_owned(), page, text.to_owned()));
    assert_eq!(texts, want);
}

async fn pictures_show_only_what_is_live_and_the_tenants_own(bed: &Bed) {
    bed.ingest("a.md", &["Ada then Bob."]).await;
    bed.built_in(&scope(), "b.md", &["Ada then Cid.\n\nEve."]).await;
    bed.ingest_in(&Scope::new("u", "c"), "a.md", &["Ada then Dan."]).await;
    let around = bed.catalog.around("t", id("ada"), None, 10).await.unwrap().unwrap();
    assert_eq!(names(&around.nodes), [("Ada", 0), ("Bob", 1)]);
    assert_eq!(around.nodes[0].mentions, 1);
    assert_eq!(bed.catalog.around("t", id("eve"), None, 10).await.unwrap(), None);
    assert_eq!(bed.catalog.around("u", id("ada"), None, 10).await.unwrap(), None);
    let theirs = bed.catalog.entities_named(EntityFilter::of("u"), "a", 10).await.unwrap();
    assert_eq!(theirs.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["Ada", "Dan"]);
    let first = MentionCursor::default();
    let ours = bed.catalog.mentioned_in("t", id("ada"), first, 10).await.unwrap();
    assert_eq!(ours.len(), 1);
    assert!(bed.catalog.mentioned_in("u", id("ada"), first, 10).await.unwrap().is_empty());
}

/// Two thousand entities beside one.
async fn a_crowded_entity_is_cut_and_stays_quick(bed: &Bed) {
    let paragraphs: Vec<String> =
        (0..40).map(|n| (0..25).map(|m| format!("Hub N{n}x{m} ")).collect()).collect();
    bed.ingest("a.md", &[&paragraphs.join("\n\n")]).await;
    let around = bed.catalog.around("t", id("hub"), None, 1_000).await.unwrap().unwrap();
    assert_eq!((around.nodes.len(), around.is_cut), (150, true));
    assert!(around.links.len() >= 149, "{}", around.links.len());
    assert_eq!(around.nodes[0].mentions, 40);
}
