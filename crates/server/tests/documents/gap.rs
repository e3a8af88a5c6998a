//! One page of many cannot be read.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::file::{chronicle, pdf};
use crate::running::{Data, Server};
use crate::{add, first, get, in_state, until};

const PAGES: usize = 300;

#[test]
fn one_bad_page_of_300_hides_none_of_the_others_and_is_read_alone_when_it_can_be() {
    let data = Data::new("documents-gap");
    let (bin, log, mended) = (data.0.join("bin"), data.0.join("asked"), data.0.join("mended"));
    std::fs::create_dir(&bin).unwrap();
    let real = std::env::var("PATH").unwrap();
    // Page 7 cannot be read until it is mended.
    let script = format!(
        "#!/bin/sh\necho \"$2\" >> {}\nif [ \"$2\" = 7 ] && [ ! -e {} ]; then\n  echo 'page 7 is \
         torn' >&2\n  exit 3\nfi\nPATH='{real}' exec pdftotext \"$@\"\n",
        log.display(),
        mended.display()
    );
    std::fs::write(bin.join("pdftotext"), script).unwrap();
    let runs = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bin.join("pdftotext"), runs).unwrap();
    let path = format!("{}:{real}", bin.display());
    let store = data.0.join("store");
    let flags = ["--data-dir", store.to_str().unwrap()];
    let server = Server::at(&flags, &[("PATH", &path)], data);
    let added = add(&server, "?name=chronicle.pdf", "application/pdf", &pdf(PAGES, chronicle));
    in_state(&server, &added, "live");
    let id = added["id"].as_str().unwrap();
    let progress = get(&server, &format!("/documents/{id}/progress"));
    assert_eq!(progress["ocr_completed_pages"], 299, "{progress}");
    assert_eq!((&progress["ocr_failed_pages"], &progress["total_pages"]), (&json!(1), &json!(300)));
    assert_eq!((&progress["ocr_status"], &progress["percent"]), (&json!("failed"), &json!(100.0)));
    let gaps = progress["gaps"].as_array().unwrap();
    assert_eq!((gaps.len(), &gaps[0]["page"], &gaps[0]["phase"]), (1, &json!(7), &json!("ocr")));
    assert!(gaps[0]["reason"].as_str().unwrap().contains("page 7 is torn"), "{gaps:?}");
    let manifest = get(&server, &format!("/documents/{id}/manifest?after=6&limit=1"));
    assert_eq!(manifest["pages"][0]["outcome"], "without", "{manifest}");
    let failed = get(&server, &format!("/documents/{id}/manifest?only=failed"));
    let pages = failed["pages"].as_array().unwrap();
    assert_eq!((pages.len(), &pages[0]["number"]), (1, &json!(7)), "{failed}");
    assert_eq!(pages[0]["item"]["status"], "failed", "{failed}");
    assert_eq!(first(&server, "town number 12"), Some(("chronicle.pdf".to_owned(), 12)));
    let stats = get(&server, "/documents/stats");
    let failed = json!({"task_type": "ocr_pages", "status": "failed", "count": 1});
    assert!(stats.as_array().unwrap().contains(&failed), "{stats}");
    // Mended: that page is read again, and no other.
    std::fs::write(&mended, "").unwrap();
    std::fs::write(&log, "").unwrap();
    let recover = format!("/api/v1/documents/{id}/recover-failed");
    let begun = server.send("POST", &recover, &json!({}));
    assert_eq!(begun.status, 202, "{:?}", begun.json());
    let progress = until(&server, "the last page", || {
        let progress = get(&server, &format!("/documents/{id}/progress"));
        let is_done = progress["graphrag_index_status"] == "completed";
        (is_done && progress["ocr_completed_pages"] == 300).then_some(progress)
    });
    assert_eq!(progress["gaps"], json!([]), "{progress}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "7\n");
    until(&server, "page 7", || {
        (first(&server, "town number 7") == Some(("chronicle.pdf".to_owned(), 7))).then_some(())
    });
    let again = server.send("POST", &recover, &json!({}));
    assert_eq!((again.status, &again.json()["code"]), (409, &json!("not_resettable")));
}
