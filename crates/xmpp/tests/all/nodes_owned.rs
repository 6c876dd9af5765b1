//! What owners do with nodes (XEP-0060 §8): how they behave, who may do what, and what is kept.

use super::dialogue::play;

/// Alice makes a node of the service that behaves so.
fn made(options: &str) -> String {
    format!(
        "alice is here
         bob is here
         alice sends
           <iq type='set' id='n' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='news'/>
           <configure><x xmlns='jabber:x:data' type='submit'>{options}</x></configure></pubsub></iq>
         alice receives
           <iq type='result' id='n'/>"
    )
}

fn option(var: &str, value: &str) -> String {
    format!("<field var='pubsub#{var}'><value>{value}</value></field>")
}

fn subscribes(state: &str) -> String {
    format!(
        "bob sends
           <iq type='set' id='s' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <subscribe node='news' jid='bob@weir.test'/></pubsub></iq>
         bob receives
           <iq type='result' id='s'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <subscription node='news' jid='bob@weir.test' subscription='{state}'/></pubsub></iq>"
    )
}

fn publishes(who: &str, item: &str) -> String {
    format!(
        "{who} sends
           <iq type='set' id='p' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='news'>
           <item id='{item}'><n xmlns='urn:n'/></item></publish></pubsub></iq>"
    )
}

fn owner(verb: &str) -> String {
    format!(
        "alice sends
           <iq type='set' id='o' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>{verb}</pubsub></iq>
         alice receives
           <iq type='result' id='o'/>"
    )
}

fn hears(inside: &str) -> String {
    format!(
        "bob receives
           <message from='pubsub.weir.test'><event xmlns='http://jabber.org/protocol/pubsub#event'>
           {inside}</event></message>"
    )
}

const DONE: &str = "alice receives
    <iq type='result' id='p'/>";

const FORBIDDEN: &str = "bob receives
    <iq type='error' id='p'><error><forbidden
    xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>";

#[tokio::test]
async fn a_node_is_configured_anew_and_those_who_hear_of_it_are_told() {
    let made = made(&(option("max_items", "3") + &option("notify_config", "1")));
    let subscribed = subscribes("subscribed");
    let two = option("max_items", "2") + &option("title", "News");
    let changed = owner(&format!(
        "<configure node='news'><x xmlns='jabber:x:data' type='submit'>{two}</x></configure>"
    ));
    let told = hears("<configuration node='news'/>");
    play(&format!(
        "{made}
         {subscribed}
         alice sends
           <iq type='get' id='c' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='news'/></pubsub>
           </iq>
         alice receives
           <iq type='result' id='c'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>
           <configure node='news'><x xmlns='jabber:x:data' type='form'>
           <field var='pubsub#max_items'><value>3</value></field></x></configure></pubsub></iq>
         {changed}
         {told}
         bob sends
           <iq type='get' id='c' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='news'/></pubsub>
           </iq>
         bob receives
           <iq type='error' id='c'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         bob sends
           <iq type='get' id='i' to='pubsub.weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#info' node='news'/></iq>
         bob receives
           <iq type='result' id='i'><query xmlns='http://jabber.org/protocol/disco#info'>
           <x xmlns='jabber:x:data' type='result'><field var='FORM_TYPE'>
           <value>http://jabber.org/protocol/pubsub#meta-data</value></field>
           <field var='pubsub#title'><value>News</value></field>
           <field var='pubsub#max_items'><value>2</value></field></x></query></iq>"
    ))
    .await;
}

/// What is in the node, as bob reads it.
fn reads(items: &[&str]) -> String {
    let all: String = items.iter().map(|id| format!("<item id='{id}'/>")).collect();
    format!(
        "bob sends
           <iq type='get' id='r' to='pubsub.weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#items' node='news'/></iq>
         bob receives
           <iq type='result' id='r'/>
         bob sends
           <iq type='get' id='r' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='news'/></pubsub></iq>
         bob receives
           <iq type='result' id='r'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <items node='news'>{all}</items></pubsub></iq>"
    )
}

/// An item that is not there any more.
fn misses(item: &str) -> String {
    format!(
        "bob sends
           <iq type='get' id='g' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='news'><item id='{item}'/>
           </items></pubsub></iq>
         bob receives
           <iq type='error' id='g'><error><item-not-found
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    )
}

#[tokio::test]
async fn a_node_keeps_so_many_items_and_none_once_it_is_purged() {
    let made = made(&option("max_items", "2"));
    let published: String =
        ["a", "b", "c"].map(|item| publishes("alice", item) + "\n" + DONE + "\n").concat();
    let (two, no_first, no_last) = (reads(&["b", "c"]), misses("a"), misses("c"));
    let subscribed = subscribes("subscribed");
    let last = hears("<items node='news'><item id='c'/></items>");
    let purged = owner("<purge node='news'/>");
    let told = hears("<purge node='news'/>");
    let one = owner(&format!(
        "<configure node='news'><x xmlns='jabber:x:data' type='submit'>{}</x></configure>",
        option("max_items", "1")
    ));
    let only_last = reads(&["c"]);
    let no_second = misses("b");
    play(&format!(
        "{made}
         {published}
         {two}
         {no_first}
         {one}
         {only_last}
         {no_second}
         bob listens no more
         {}
         {purged}
         {told}
         {no_last}",
        // The last item comes with the subscription.
        subscribed.replacen("bob receives", &(last + "\nbob receives"), 1)
    ))
    .await;
}

#[tokio::test]
async fn owners_say_who_publishes_and_who_is_kept_out() {
    let made = made("");
    let is = |affiliation: &str| {
        owner(&format!(
            "<affiliations node='news'><affiliation jid='bob@weir.test' \
             affiliation='{affiliation}'/></affiliations>"
        ))
    };
    let (publisher, outcast) = (is("publisher"), is("outcast"));
    let by_bob = publishes("bob", "b");
    play(&format!(
        "{made}
         {by_bob}
         {FORBIDDEN}
         {publisher}
         {by_bob}
         bob receives
           <iq type='result' id='p'/>
         alice sends
           <iq type='get' id='a' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><affiliations node='news'/>
           </pubsub></iq>
         alice receives
           <iq type='result' id='a'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>
           <affiliations node='news'><affiliation jid='alice@weir.test' affiliation='owner'/>
           <affiliation jid='bob@weir.test' affiliation='publisher'/></affiliations></pubsub></iq>
         bob sends
           <iq type='get' id='m' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><affiliations/></pubsub></iq>
         bob receives
           <iq type='result' id='m'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <affiliations><affiliation node='news' affiliation='publisher'/></affiliations></pubsub>
           </iq>
         {outcast}
         {by_bob}
         {FORBIDDEN}
         bob sends
           <iq type='get' id='r' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='news'/></pubsub></iq>
         bob receives
           <iq type='error' id='r'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='set' id='o' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><affiliations node='news'>
           <affiliation jid='alice@weir.test' affiliation='none'/></affiliations></pubsub></iq>
         alice receives
           <iq type='error' id='o'><error><not-acceptable
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    ))
    .await;
}

/// Bob is told what his subscription is now.
fn state(state: &str) -> String {
    format!(
        "<message from='pubsub.weir.test'><event xmlns='http://jabber.org/protocol/pubsub#event'>
         <subscription node='news' jid='bob@weir.test' subscription='{state}'/></event></message>"
    )
}

#[tokio::test]
async fn owners_are_asked_by_a_form_whether_somebody_may_hear_of_a_node() {
    let made = made(&option("access_model", "authorize"));
    let pending = subscribes("pending");
    let says = |who: &str, allow: &str| {
        format!(
            "{who} sends
               <message to='pubsub.weir.test' id='f'><x xmlns='jabber:x:data' type='submit'>
               <field var='FORM_TYPE' type='hidden'>
               <value>http://jabber.org/protocol/pubsub#subscribe_authorization</value></field>
               <field var='pubsub#node'><value>news</value></field>
               <field var='pubsub#subscriber_jid'><value>bob@weir.test</value></field>
               <field var='pubsub#allow'><value>{allow}</value></field></x></message>"
        )
    };
    let (yes, no, by_himself) = (says("alice", "1"), says("alice", "0"), says("bob", "1"));
    let (subscribed, none) = (state("subscribed"), state("none"));
    let form = "alice receives
        <message from='pubsub.weir.test' id='*'><x xmlns='jabber:x:data' type='form'>
        <field var='FORM_TYPE'>
        <value>http://jabber.org/protocol/pubsub#subscribe_authorization</value></field>
        <field var='pubsub#node'><value>news</value></field>
        <field var='pubsub#subscriber_jid'><value>bob@weir.test</value></field>
        <field var='pubsub#allow' type='boolean'/></x></message>";
    let published = publishes("alice", "a");
    let hears = hears("<items node='news'><item id='a'/></items>");
    play(&format!(
        "{made}
         {pending}
         {form}
         {pending}
         alice hears nothing
         {by_himself}
         bob receives
           <message type='error' id='f'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         {no}
         bob receives
           {none}
         {no}
         alice receives
           <message type='error' id='f'><error><item-not-found
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         {pending}
         {form}
         {yes}
         bob receives
           {subscribed}
         {published}
         {DONE}
         {hears}"
    ))
    .await;
}

#[tokio::test]
async fn who_is_kept_out_hears_no_more_by_whatever_address() {
    let made = made("");
    let subscribed =
        subscribes("subscribed").replace("jid='bob@weir.test'", "jid='bob@weir.test/home'");
    let outcast = owner(
        "<affiliations node='news'><affiliation jid='bob@weir.test' affiliation='outcast'/>
         </affiliations>",
    );
    let published = publishes("alice", "a");
    play(&format!(
        "{made}
         {subscribed}
         {outcast}
         {published}
         {DONE}
         bob hears nothing"
    ))
    .await;
}

#[tokio::test]
async fn who_asks_for_a_guarded_node_waits_until_the_owner_lets_them_in() {
    let made = made(&option("access_model", "authorize"));
    let (pending, published) = (subscribes("pending"), publishes("alice", "a"));
    let lets_in = owner(
        "<subscriptions node='news'><subscription jid='bob@weir.test' subscription='subscribed'/>
         </subscriptions>",
    );
    let state = state("subscribed");
    let again = publishes("alice", "b");
    let hears = hears("<items node='news'><item id='b'/></items>");
    play(&format!(
        "{made}
         {pending}
         alice receives
           <message from='pubsub.weir.test'/>
         {published}
         {DONE}
         bob hears nothing
         bob sends
           <iq type='get' id='r' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='news'/></pubsub></iq>
         bob receives
           <iq type='error' id='r'><error><not-authorized
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='get' id='l' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><subscriptions node='news'/>
           </pubsub></iq>
         alice receives
           <iq type='result' id='l'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>
           <subscriptions node='news'><subscription jid='bob@weir.test' subscription='pending'/>
           </subscriptions></pubsub></iq>
         {lets_in}
         bob receives
           {state}
         {again}
         {DONE}
         {hears}"
    ))
    .await;
}

#[tokio::test]
async fn a_node_tells_as_it_is_configured_and_takes_no_more_than_it_wants() {
    let normal = made(&option("notification_type", "normal"));
    let subscribes = subscribes("subscribed");
    let (first, second) = (publishes("alice", "1"), publishes("alice", "2"));
    let big = publishes("alice", "3");
    let silent = owner(&format!(
        "<configure node='news'><x xmlns='jabber:x:data' type='submit'>{}{}</x></configure>",
        option("deliver_notifications", "0"),
        option("max_payload_size", "20")
    ));
    let small = owner(&format!(
        "<configure node='news'><x xmlns='jabber:x:data' type='submit'>{}</x></configure>",
        option("max_payload_size", "5")
    ));
    play(&format!(
        "{normal}
         {subscribes}
         {first}
         {DONE}
         bob receives
           <message from='pubsub.weir.test' type='(none)'>
           <event xmlns='http://jabber.org/protocol/pubsub#event'><items node='news'>
           <item id='1'/></items></event></message>
         {silent}
         {second}
         {DONE}
         bob hears nothing
         {small}
         {big}
         alice receives
           <iq type='error' id='p'><error>
           <not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>
           <payload-too-big xmlns='http://jabber.org/protocol/pubsub#errors'/></error></iq>"
    ))
    .await;
}

#[tokio::test]
async fn what_a_node_cannot_do_is_refused_and_not_passed_over() {
    let made = made("");
    let mut script = format!("{made}\n");
    for field in ["purge_offline", "presence_based_delivery"] {
        let option = option(field, "1");
        script += &format!(
            "alice sends
               <iq type='set' id='o' to='pubsub.weir.test'>
               <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='news'>
               <x xmlns='jabber:x:data' type='submit'>{option}</x></configure></pubsub></iq>
             alice receives
               <iq type='error' id='o'><error>
               <not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>\n"
        );
    }
    let digest = option("digest", "1");
    for (kind, verb, feature) in [
        ("get", "<options node='news' jid='bob@weir.test'/>", "subscription-options"),
        (
            "set",
            &*format!(
                "<subscribe node='news' jid='bob@weir.test'/><options>
                 <x xmlns='jabber:x:data' type='submit'>{digest}</x></options>"
            ),
            "subscription-options",
        ),
        ("get", "<default node='news'/>", "retrieve-default-sub"),
    ] {
        script += &format!(
            "bob sends
               <iq type='{kind}' id='u' to='pubsub.weir.test'>
               <pubsub xmlns='http://jabber.org/protocol/pubsub'>{verb}</pubsub></iq>
             bob receives
               <iq type='error' id='u'><error>
               <feature-not-implemented xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>
               <unsupported xmlns='http://jabber.org/protocol/pubsub#errors' feature='{feature}'/>
               </error></iq>\n"
        );
    }
    play(&script).await;
}

#[tokio::test]
async fn owners_ask_who_waits_and_let_them_in() {
    let made = made(&option("access_model", "authorize"));
    let subscribes = subscribes("pending");
    let command = |who: &str, form: &str| {
        format!(
            "{who} sends
               <iq type='set' id='c' to='pubsub.weir.test'>
               <command xmlns='http://jabber.org/protocol/commands'
               node='http://jabber.org/protocol/pubsub#get-pending'>{form}</command></iq>"
        )
    };
    let chosen = format!("<x xmlns='jabber:x:data' type='submit'>{}</x>", option("node", "news"));
    let (asks, chooses, of_bob) =
        (command("alice", ""), command("alice", &chosen), command("bob", &chosen));
    play(&format!(
        "{made}
         {subscribes}
         alice receives
           <message from='pubsub.weir.test'/>
         {asks}
         alice receives
           <iq type='result' id='c'><command xmlns='http://jabber.org/protocol/commands'
           status='executing'><x xmlns='jabber:x:data' type='form'>
           <field var='pubsub#node' type='list-single'><option><value>news</value></option></field>
           </x></command></iq>
         {chooses}
         alice receives in any order
           <message from='pubsub.weir.test'><x xmlns='jabber:x:data' type='form'>
           <field var='pubsub#subscriber_jid'><value>bob@weir.test</value></field></x></message>
           <iq type='result' id='c'><command xmlns='http://jabber.org/protocol/commands'
           status='completed'/></iq>
         {of_bob}
         bob receives
           <iq type='error' id='c'><error>
           <forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <message to='pubsub.weir.test'><x xmlns='jabber:x:data' type='submit'>
           <field var='FORM_TYPE'>
           <value>http://jabber.org/protocol/pubsub#subscribe_authorization</value></field>
           <field var='pubsub#node'><value>news</value></field>
           <field var='pubsub#subscriber_jid'><value>bob@weir.test</value></field>
           <field var='pubsub#allow'><value>1</value></field></x></message>
         bob receives
           <message from='pubsub.weir.test'>
           <event xmlns='http://jabber.org/protocol/pubsub#event'>
           <subscription node='news' subscription='subscribed'/></event></message>
         {asks}
         alice receives
           <iq type='result' id='c'><command xmlns='http://jabber.org/protocol/commands'>
           <x xmlns='jabber:x:data'><field var='pubsub#node'/></x></command></iq>"
    ))
    .await;
}
