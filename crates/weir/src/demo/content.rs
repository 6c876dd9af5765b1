//! Who lives in the demo community, and what they have written.

/// A person to look at.
pub(super) struct DemoPerson {
    pub(super) name: &'static str,
    pub(super) display_name: &'static str,
    pub(super) note: &'static str,
    pub(super) field: (&'static str, &'static str),
    pub(super) is_admin: bool,
}

/// Those who can log in.
pub(super) const PEOPLE: &[DemoPerson] = &[
    DemoPerson {
        name: "alice",
        display_name: "Alice",
        note: "Keeps this place running. Walks along rivers, mostly upstream. #rivers #maps",
        field: ("Ask me about", "weirs, locks and mills"),
        is_admin: true,
    },
    DemoPerson {
        name: "bob",
        display_name: "Bob",
        note: "Bakes bread, repairs bicycles, posts pictures of both. #bread #cycling",
        field: ("Sourdough", "since 2011"),
        is_admin: false,
    },
    DemoPerson {
        name: "carol",
        display_name: "Carol",
        note: "Sky watcher. Here for the evenings. #sky #gardening",
        field: ("Telescope", "a small one"),
        is_admin: false,
    },
];

/// What a post is, besides its text.
pub(super) enum Extra {
    /// Nothing more.
    Plain,
    /// It stands behind this warning.
    Warned(&'static str),
    /// It asks.
    Poll(&'static [&'static str]),
    /// It shows the picture of that number, which is described so.
    Picture(u32, &'static str),
    /// It answers the post of that number.
    Reply(usize),
    /// It is for the followers, or for those it mentions.
    Private,
}

/// A post: its author's place in [`PEOPLE`], its text, and what else it is.
pub(super) struct DemoPost(pub(super) usize, pub(super) &'static str, pub(super) Extra);

/// The posts, the oldest first.
pub(super) const POSTS: &[DemoPost] = &[
    DemoPost(
        0,
        "Welcome! This community runs on one small program on your own machine. Log in, write \
         something, follow somebody, and see what happens. #introduction",
        Extra::Plain,
    ),
    DemoPost(
        1,
        "Hello from the bakery corner. The oven is warm, the chain is oiled. #introduction #bread",
        Extra::Plain,
    ),
    DemoPost(
        2,
        "New here. I mostly watch the sky and forget to eat. #introduction #sky",
        Extra::Plain,
    ),
    DemoPost(1, "@carol Then you have come to the right place: there is bread.", Extra::Reply(2)),
    DemoPost(2, "@bob You have a friend for life.", Extra::Reply(3)),
    DemoPost(
        0,
        "The old weir below the mill, early this morning. It has held the river's level for three \
         hundred years, and nobody notices it until there is a flood. #rivers",
        Extra::Picture(0, "Hills in morning light, one behind the other, drawn in soft colours"),
    ),
    DemoPost(
        2,
        "Tonight's sky, before the clouds came. #sky",
        Extra::Picture(1, "A deep blue evening sky over dark hills, with a low orange band"),
    ),
    DemoPost(
        1,
        "What should I bake on Sunday? #bread",
        Extra::Poll(&["Rye", "Baguettes", "Something with walnuts", "Rolls for everybody"]),
    ),
    DemoPost(0, "@bob Walnuts. The answer is always walnuts.", Extra::Reply(7)),
    DemoPost(
        1,
        "The trick is that the butler was never in the house. Read it anyway, it is a lovely book.",
        Extra::Warned("The end of a detective story"),
    ),
    DemoPost(
        2,
        "The beans have reached the top of the poles. I have run out of poles. #gardening",
        Extra::Picture(2, "Green garden hills under a pale sky"),
    ),
    DemoPost(
        0,
        "@carol Longer poles are a maintenance task. I approve. #gardening",
        Extra::Reply(10),
    ),
    DemoPost(
        1,
        "Only my followers read this: the spare key is under the third flower pot.",
        Extra::Private,
    ),
    DemoPost(
        0,
        "Forty kilometres along the canal, eleven locks, one heron who did not move an inch. \
         #rivers #cycling",
        Extra::Plain,
    ),
];

/// Who boosts which post.
pub(super) const BOOSTS: &[(usize, usize)] = &[(1, 5), (2, 5), (0, 6), (0, 1)];

/// Who favours which post.
pub(super) const FAVOURITES: &[(usize, usize)] =
    &[(1, 0), (2, 0), (0, 3), (2, 5), (0, 6), (1, 6), (0, 10), (1, 10), (1, 13), (2, 13)];
