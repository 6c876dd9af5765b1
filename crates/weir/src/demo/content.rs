//! Who lives in the demo community, and what they have written.

/// A person to look at.
pub(super) struct DemoPerson {
    pub(super) name: &'static str,
    pub(super) display_name: &'static str,
    pub(super) note: &'static str,
    pub(super) field: (&'static str, &'static str),
    pub(super) is_admin: bool,
}

const fn person(
    name: &'static str,
    display_name: &'static str,
    note: &'static str,
    field: (&'static str, &'static str),
) -> DemoPerson {
    DemoPerson { name, display_name, note, field, is_admin: false }
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
    person(
        "bob",
        "Bob",
        "Bakes bread, repairs bicycles, posts pictures of both. #bread #cycling",
        ("Sourdough", "since 2011"),
    ),
    person(
        "carol",
        "Carol",
        "Sky watcher. Here for the evenings. #sky #gardening",
        ("Telescope", "a small one"),
    ),
    person(
        "dave",
        "Dave",
        "Plays the accordion, quietly, in a house with thin walls. #music #books",
        ("Reading", "three at once"),
    ),
    person(
        "erin",
        "Erin",
        "Draws maps of places that are there, and of some that are not. #maps #rivers",
        ("Pens", "too many"),
    ),
];

/// What a post is, besides its text.
pub(super) enum Extra {
    /// Nothing more.
    Plain,
    /// It stands behind this warning.
    Warned(&'static str),
    /// It asks.
    Poll(&'static [&'static str]),
    /// It shows the pictures of these numbers, which are described so.
    Pictures(&'static [(u32, &'static str)]),
    /// It answers the post of that number.
    Reply(usize),
    /// It is for the followers, or for those it mentions.
    Private,
}

/// A post: its author's place in [`PEOPLE`], how many hours ago, its text, and what else it is.
pub(super) struct DemoPost(
    pub(super) usize,
    pub(super) f64,
    pub(super) &'static str,
    pub(super) Extra,
);

const ALICE: usize = 0;
const BOB: usize = 1;
const CAROL: usize = 2;
const DAVE: usize = 3;
const ERIN: usize = 4;

use Extra::{Pictures, Plain, Poll, Private, Reply, Warned};

/// The posts, the oldest first.
pub(super) const POSTS: &[DemoPost] = &[
    DemoPost(
        ALICE,
        160.0,
        "Welcome! This community runs on one small program on your own machine. Log in, write \
         something, follow somebody, and see what happens. #introduction",
        Plain,
    ),
    DemoPost(
        BOB,
        158.5,
        "Hello from the bakery corner. The oven is warm, the chain is oiled. #introduction #bread",
        Plain,
    ),
    DemoPost(
        CAROL,
        157.0,
        "New here. I mostly watch the sky and forget to eat. #introduction #sky",
        Plain,
    ),
    DemoPost(BOB, 156.8, "@carol Then you have come to the right place: there is bread.", Reply(2)),
    DemoPost(CAROL, 156.5, "@bob You have a friend for life.", Reply(3)),
    DemoPost(
        ERIN,
        150.0,
        "I draw maps. Tell me of a place you like, and how you would walk through it. \
         #introduction #maps",
        Plain,
    ),
    DemoPost(
        DAVE,
        149.0,
        "@erin From the kitchen to the armchair, by way of the kettle.",
        Reply(5),
    ),
    DemoPost(ERIN, 148.2, "@dave A classic route. Is there a view?", Reply(6)),
    DemoPost(DAVE, 148.0, "@erin Of the kettle.", Reply(7)),
    DemoPost(
        ALICE,
        139.0,
        "The old weir below the mill, early this morning. It has held the river's level for three \
         hundred years, and nobody notices it until there is a flood. #rivers",
        Pictures(&[(0, "Hills in morning light, one behind the other, in soft colours")]),
    ),
    DemoPost(
        CAROL,
        126.0,
        "Tonight's sky, before the clouds came. #sky",
        Pictures(&[(1, "A deep blue evening sky over dark hills, with a low orange band")]),
    ),
    DemoPost(
        DAVE,
        118.0,
        "Three neighbours have now asked what I was playing. None of them meant it kindly. #music",
        Plain,
    ),
    DemoPost(CAROL, 117.5, "@dave I would like to know, and I do mean it kindly.", Reply(11)),
    DemoPost(DAVE, 117.0, "@carol A waltz. It was not meant to be one.", Reply(12)),
    DemoPost(
        BOB,
        112.0,
        "A loose spoke sounds just like a cricket. I looked for that cricket for two weeks. \
         #cycling",
        Plain,
    ),
    DemoPost(
        ERIN,
        101.0,
        "The same valley at three times of the day. The shadows make the map. #maps #rivers",
        Pictures(&[
            (3, "Pale hills at dawn, with mist between them"),
            (2, "Green hills under a bright sky"),
            (4, "The hills as dark shapes against a red evening"),
        ]),
    ),
    DemoPost(ALICE, 100.2, "@erin The mist stands exactly where the mill race was.", Reply(15)),
    DemoPost(ERIN, 99.8, "@alice That is how I found it.", Reply(16)),
    DemoPost(
        BOB,
        75.0,
        "What should I bake on Sunday? #bread",
        Poll(&["Rye", "Baguettes", "Something with walnuts", "Rolls for everybody"]),
    ),
    DemoPost(ALICE, 74.6, "@bob Walnuts. The answer is always walnuts.", Reply(18)),
    DemoPost(DAVE, 73.0, "@bob Rolls. I owe the neighbours something.", Reply(18)),
    DemoPost(
        BOB,
        70.0,
        "The trick is that the butler was never in the house. Read it anyway, it is a lovely book. \
         #books",
        Warned("The end of a detective story"),
    ),
    DemoPost(DAVE, 69.5, "@bob I was on page 40.", Reply(21)),
    DemoPost(BOB, 69.3, "@dave That is what the warning was for!", Reply(22)),
    DemoPost(
        CAROL,
        53.0,
        "The beans have reached the top of the poles. I have run out of poles. #gardening",
        Pictures(&[(5, "Green garden hills under a pale sky")]),
    ),
    DemoPost(
        ALICE,
        52.5,
        "@carol Longer poles are a maintenance task. I approve. #gardening",
        Reply(24),
    ),
    DemoPost(
        BOB,
        49.0,
        "Only my followers read this: the spare key is under the third flower pot.",
        Private,
    ),
    DemoPost(
        DAVE,
        46.0,
        "Reading about how locks work, the ones for boats. It turns out that the gates are held \
         shut by the water itself. The river does the work, as it should. #books #rivers",
        Plain,
    ),
    DemoPost(
        ERIN,
        30.0,
        "How do you find your way in a new town?",
        Poll(&["A map, folded wrong", "I ask", "Downhill until there is water"]),
    ),
    DemoPost(CAROL, 29.0, "@erin By the stars, and then the bus.", Reply(28)),
    DemoPost(
        ALICE,
        26.0,
        "Forty kilometres along the canal, eleven locks, one heron who did not move an inch. \
         #rivers #cycling",
        Pictures(&[(6, "A wide pale sky over low hills in the afternoon")]),
    ),
    DemoPost(BOB, 25.5, "@alice The heron is a volunteer. Next week is my turn.", Reply(30)),
    DemoPost(
        CAROL,
        20.0,
        "Clear sky until midnight, if the forecast is right. Dress warmly, bring something hot. \
         Meet at the bridge. #sky",
        Plain,
    ),
    DemoPost(ERIN, 19.6, "@carol I bring the tea.", Reply(32)),
    DemoPost(BOB, 19.4, "@carol I bring what goes with tea.", Reply(32)),
    DemoPost(
        CAROL,
        9.0,
        "It was right. Thank you all for coming, and for the walnut bread. #sky #bread",
        Pictures(&[(7, "A night sky over hills, almost black, with a faint light in the west")]),
    ),
    DemoPost(
        DAVE,
        5.0,
        "Four neighbours have now asked what I was playing. The fourth wants to learn it. #music",
        Plain,
    ),
    DemoPost(CAROL, 4.5, "@dave I told you so.", Reply(36)),
    DemoPost(
        BOB,
        2.0,
        "First walnut loaf of the day is out. The second will be better, it always is. #bread",
        Plain,
    ),
    DemoPost(
        ERIN,
        0.7,
        "The map of this place is finished. It has one river, five houses, and a great deal of \
         room for more. #maps",
        Pictures(&[(8, "Hills in layers of blue and green, like the colours of a map")]),
    ),
];

/// Who boosts which post.
pub(super) const BOOSTS: &[(usize, usize)] = &[
    (BOB, 9),
    (CAROL, 9),
    (ALICE, 10),
    (ALICE, 1),
    (DAVE, 15),
    (ALICE, 27),
    (ERIN, 30),
    (DAVE, 35),
];

/// Who favours which post.
pub(super) const FAVOURITES: &[(usize, usize)] = &[
    (BOB, 0),
    (CAROL, 0),
    (ALICE, 3),
    (CAROL, 9),
    (ERIN, 9),
    (ALICE, 10),
    (BOB, 10),
    (ERIN, 8),
    (BOB, 13),
    (ALICE, 15),
    (BOB, 15),
    (CAROL, 15),
    (BOB, 19),
    (ALICE, 24),
    (BOB, 24),
    (ERIN, 27),
    (BOB, 30),
    (CAROL, 30),
    (DAVE, 32),
    (ALICE, 35),
    (ERIN, 35),
    (CAROL, 36),
    (ALICE, 38),
    (DAVE, 38),
    (ALICE, 39),
];

/// Who votes in which post for which option.
pub(super) const VOTES: &[(usize, usize, usize)] = &[
    (ALICE, 18, 2),
    (CAROL, 18, 2),
    (DAVE, 18, 3),
    (ERIN, 18, 0),
    (ALICE, 28, 2),
    (BOB, 28, 1),
    (CAROL, 28, 2),
];

/// What the community says of itself.
pub(super) const TITLE: &str = "The Weir";
pub(super) const SHORT: &str =
    "A demo community by a river: five people, a baker's oven, and a clear sky now and then.";
pub(super) const ABOUT: &str = "<p>Everything here is made up, and lies in one directory on your \
    own machine. Log in as one of the people, change what you like, and look at what happens. \
    Delete the directory to begin anew.</p>";
pub(super) const RULES: &[(&str, &str)] = &[
    ("Be kind.", "Also to those who are wrong."),
    ("Describe your pictures.", "Not everybody sees them."),
    ("No endings of detective stories without a warning.", ""),
];
