//! Previews of what posts link to.

use weir_base::Id;
use weir_community::statuses::{self, Visibility};

use crate::origin::Origin;
use crate::place::{Place, places, until};

async fn card(place: &Place, id: Id) -> Option<(serde_json::Value, String)> {
    let load = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
        statuses::load_one(tx, env, None, id)
    };
    place.read(load).await.unwrap().card
}

#[tokio::test]
async fn a_page_is_fetched_a_little_later_and_once_for_all_posts_that_link_to_it() {
    let html = b"<title>A page</title><meta property='og:image' content='/i.png'>".to_vec();
    let origin = Origin::serve([("/page", "text/html; charset=utf-8", html)]).await;
    for (place, asked) in places().into_iter().zip([1, 2]) {
        let alice = place.person("alice").await;
        let text = format!("look @alice #here {}/page", origin.base);
        let first = place.post(alice, &text, Visibility::Public).await;
        assert_eq!(card(&place, first).await, None);
        let running = place.start(|_, _| {});
        place.clock.advance(60_000);
        place.jobs.wake();
        until("the first card", async || card(&place, first).await.is_some()).await;
        let second = place.post(alice, &text, Visibility::Public).await;
        place.clock.advance(60_000);
        place.jobs.wake();
        until("the second card", async || card(&place, second).await.is_some()).await;
        let (facts, image) = card(&place, second).await.unwrap();
        assert_eq!((&facts["title"], &facts["type"]), (&"A page".into(), &"link".into()));
        assert!(image.starts_with("/media_proxy/card/"), "{image}");
        assert_eq!(origin.asked(), asked);
        running.stop().await;
    }
}
