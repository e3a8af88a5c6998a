//! Passages and questions by which embedders are judged: several are about the same things, and the
//! questions use other forms and orders of words than the passages do.

pub(super) const PASSAGES: [&str; 30] = [
    "The boiler in the basement must be serviced every autumn, before heating begins. The \
     engineer checks the pressure, cleans the burner and replaces the filter. Ask for the signed \
     report and keep it with the insurance papers.",
    "If the heating stays cold although the boiler runs, there is usually air in the radiators. \
     Open the small valve at the side with the square key until water comes out, then close it \
     again.",
    "Rent is due on the third working day of each month. Whoever pays later than the tenth owes \
     five euros for every reminder that the landlord has to send.",
    "The deposit amounts to three months' rent. It is returned within six weeks after the keys \
     have been handed over, less the cost of repairing damage that goes beyond ordinary wear.",
    "Bicycles belong into the cellar, not into the stairwell. The stairwell is an escape route \
     and has to stay free at all times; what stands there is removed at its owner's expense.",
    "Sourdough needs patience. Feed the starter twice a day with equal parts of flour and water, \
     and use it when it has doubled its volume and smells faintly of apples.",
    "Knead the dough for ten minutes until it no longer sticks to the bowl. Let it rise under a \
     damp cloth for an hour, shape the loaf, and bake it at 230 degrees for forty minutes.",
    "A good vegetable broth is made of leeks, carrots, celery and an onion that was browned in \
     its skin. Simmer it for two hours, never let it boil, and salt it at the very end.",
    "Coffee tastes bitter when the water is too hot or the powder too fine. Ninety-three degrees \
     and a medium grind suit most beans; rinse the paper filter first.",
    "To keep basil alive, water it from below and put it near a bright window. Pick whole shoots \
     instead of single leaves, so that the plant branches out.",
    "The annual general meeting takes place in March. Members receive the agenda by post at least \
     fourteen days earlier, and motions must reach the board one week before the meeting.",
    "The treasurer presents the accounts of the past year. Two auditors, who must not belong to \
     the board, examine the receipts and recommend whether the board is to be discharged.",
    "Membership ends by resignation, exclusion or death. A resignation has to be declared in \
     writing and takes effect at the end of the calendar year; fees already paid are not \
     refunded.",
    "The club's boats may be taken out by members who have passed the rowing test. Every outing \
     is entered in the logbook before departure, with the names of the crew and the destination.",
    "In thunderstorms, in fog and after dark nobody leaves the jetty. Whoever is surprised by a \
     storm heads for the nearest shore and waits there until it has passed.",
    "Our parcels are handed to the carrier every afternoon at four. An order that arrives before \
     noon is shipped on the same day, and a message with the tracking number follows in the \
     evening.",
    "Goods may be sent back within thirty days, unused and in their packaging. We refund the \
     price to the card that was charged as soon as the parcel has been inspected in our \
     warehouse.",
    "An invoice that remains unpaid after two reminders is passed to a collection agency. \
     Interest of eight percent a year is charged from the day on which payment was due.",
    "The warranty covers faults of material and workmanship for two years. It does not cover \
     batteries, scratches, or devices that were opened by anybody but an authorised workshop.",
    "Press and hold the power button for eight seconds to restart the router. If the red light \
     goes on blinking, reset it with a paper clip; this erases the wireless password.",
    "Backups are made every night at two and kept for ninety days. Restoring a single file takes \
     minutes; restoring the entire database takes about three hours and needs the administrator.",
    "Passwords must have twelve characters. They are not changed at fixed intervals any more, but \
     at once if there is reason to believe that somebody else has learnt them.",
    "Laptops that leave the building are encrypted. The loss of a device must be reported to the \
     help desk within one hour, so that its access can be revoked.",
    "The server room is cooled to twenty-one degrees. Two alarms, one by text message and one by \
     siren, go off when the temperature rises above twenty-eight.",
    "Employees get thirty days of holiday a year. Up to five days that were not taken can be \
     carried over into the next year and lapse at the end of March.",
    "Anyone who falls ill informs the team before nine in the morning. From the fourth day on a \
     doctor's certificate is required, which may be submitted as a photograph.",
    "Travel by train is booked in second class. Flights within the country are paid for only if \
     the journey by rail would take longer than six hours.",
    "The museum opens at ten from Tuesday to Sunday. Admission is free for children under twelve \
     and on the first Sunday of every month for everybody.",
    "The glacier has lost a third of its length since it was first surveyed in 1891. Poles \
     drilled into the ice show that it now melts by four metres a summer.",
    "Swifts spend almost their whole life in the air. They sleep, drink and mate on the wing, and \
     come to the ground only to breed under the roofs of old houses.",
];

/// A question, and which passage answers it.
pub(super) const QUESTIONS: [(&str, usize); 20] = [
    ("how often does the boiler have to be serviced?", 0),
    ("radiator stays cold, how do I let the air out", 1),
    ("what does it cost to pay the rent too late", 2),
    ("When do I get my deposit back after moving out?", 3),
    ("may I leave my bicycle in the stairwell", 4),
    ("how do I feed a sourdough starter", 5),
    ("at how many degrees is the loaf baked?", 6),
    ("why is my coffee bitter", 8),
    ("watering basil plants", 9),
    ("deadline for motions to the general meeting", 10),
    ("who audits the accounts of the treasurer", 11),
    ("how can a member resign from the club", 12),
    ("rowing boat caught in a thunderstorm", 14),
    ("tracking numbers for shipped orders", 15),
    ("is the battery covered by warranty?", 18),
    ("restarting a router with a blinking red light", 19),
    ("How long are backups kept?", 20),
    ("I lost my laptop, whom do I report it to", 22),
    ("unused holidays carried over to next year", 24),
    ("how fast is the glacier melting", 28),
];

/// Of how many questions, in parts of one, the passage is among the five that lie nearest.
pub(super) fn recall_at_five(embed: impl Fn(&str) -> Vec<f32>) -> f64 {
    let passages: Vec<Vec<f32>> = PASSAGES.iter().map(|passage| embed(passage)).collect();
    let is_found = |(question, answer): &&(&str, usize)| {
        let question = embed(question);
        let score = |passage: &Vec<f32>| -> f32 {
            passage.iter().zip(&question).map(|(one, other)| one * other).sum()
        };
        let scores: Vec<f32> = passages.iter().map(score).collect();
        scores.iter().filter(|score| **score > scores[*answer]).count() < 5
    };
    QUESTIONS.iter().filter(is_found).count() as f64 / QUESTIONS.len() as f64
}
