"""Limits of the search, the merges and the proof, in units of work.

No clock and no free memory decides what hx does: a slow or a full machine gives the same file and
the same verdict. A limit that no user reaches and that protects nothing does not belong here; facts
about dtypes, runtimes and file formats stay where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """Work in products of numbers, as `ir/work.py` counts them.

    Writing an element counts as 16, and running a node as 16,384. A thousand million of them take
    about a second.
    """

    # Lines of its code that a model may run on inputs that hx made, for each recorded node.
    # A loop that values end may never end there; on the user's inputs it ran once.
    lines_per_node: int = 30
    # The same in work, for nodes that are cheap. It takes about ten seconds.
    unfinished_run: float = 2e10
    # The share of this after a run that did not end: further runs rarely end, either.
    unfinished_again: float = 0.1
    # One run of the model; after a longer one, it does not run with far more rounds.
    longer_run: float = 2e8
    # One run with more rounds in all loops at once; beyond, in one loop at a time.
    rounds_together: float = 1e9
    # All runs of a model that draws sizes: each comparison takes a run of its own.
    drawn_sizes: float = 3e10
    # All recordings that are merged for a branch in the rounds of a loop.
    branches_in_rounds: float = 1e11
    # Recording a node, in addition to running it.
    recorded_node: int = 1 << 17
    # One run at other sizes to find a branch: times the recorded run's work, or in total.
    branch_factor: int = 32
    branch: float = 1 << 32
    # All runs at other sizes for the questions of one recording, as a factor of one recorded run.
    other_sizes_factor: int = 8
    # The same for combined answers: each question adds at most one run.
    combined_answers_factor: int = 4
    # Work that takes next to no time, so no factor forbids it.
    negligible: int = 1 << 28


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Runs and recordings of the model."""

    # Recordings that look for branches: each question may double the ways.
    branches: int = 48
    # Recordings in one graph with branches: more make a file that nobody wants.
    merged_branches: int = 32
    # Lines about values of which each may have both answers, so they may double the ways.
    lines_of_values: int = 5
    # Recordings for branches in the rounds of a loop: each round may go another way.
    branches_in_rounds: int = 200
    # Questions whose answers may follow from the number of the round.
    numbered_rounds: int = 40
    # Recordings on other data that have to agree about branches in rounds.
    other_data: int = 8
    # Inputs that a model is recorded on to find its branches; a quarter of it for heavy models.
    branch_inputs: int = 24
    # Lines that may end a loop, each of which takes a recording of its own.
    loop_ends: int = 3
    # Inputs or sizes with a wrong file that the next file has to pass first.
    wrong_before: int = 8
    # Recordings that only listen for the questions of a model on other inputs.
    listened_to: int = 12
    # Inputs on which a file was wrong that are recorded to find branches in rounds.
    failed_inputs: int = 5
    # Inputs of which each is zero in a run of its own.
    zeroed_inputs: int = 8
    # Runs that do not agree by chance, if the model has a hidden source of random numbers.
    hidden_randomness: int = 5
    # Cases with equal results in two runs, after which the model runs once for each case.
    repeatable: int = 2
    # Starts of a job in a batch whose process is killed each time.
    starts_of_a_job: int = 3


@dataclass(frozen=True, slots=True)
class QuestionLimits:
    """Questions of a model, and cases that a question has another answer in."""

    # Questions that any recording with other answers may ask, and nodes that it may have for each
    # further one. Few models ask as often as they compute, and an endless loop asks ever longer.
    of_a_recording: int = 256
    nodes_for_each: int = 8
    # Cases with wrong parts on one side of a question, after which no other one there is explained.
    wrong_parts: int = 3


@dataclass(frozen=True, slots=True)
class EffortLimits:
    """Runs of the model, recorded or not, after which a search tries nothing new."""

    # Several strategies for a model that asks little, or one merge of many ways.
    low: int = 200
    # A loop that values end is recorded with a thousand rounds, and some models have several.
    normal: int = 10_000
    # For a model that may take an hour.
    high: int = 100_000

    @property
    def by_name(self) -> dict[str, int]:
        return {"low": self.low, "normal": self.normal, "high": self.high}


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Sizes of inputs that are searched or tried."""

    # Sizes beyond questions that are tried in one export: more rarely show anything new.
    across: int = 4
    # Model runs for each of these, because the model refuses some sizes.
    runs_for_each: int = 3
    # Sizes beyond the nearest one across a question, which the model may refuse.
    beyond_nearest: int = 2
    # Distances from the recorded size that are checked one by one: all names, and one name.
    near: int = 32
    one_by_one: int = 1024
    # The largest size at which a question may change its answer.
    largest: int = 1 << 24
    # The largest size at which inputs are made to lead elsewhere, or to run more rounds.
    larger_inputs: int = 4096
    # Sizes drawn to find where the model may go another way; each is only computed with.
    drawn: int = 1000
    # Nearest of these at which the model runs.
    nearest: int = 3
    # Inputs with sizes mixed from several others.
    mixed: int = 8
    # Sizes in a row from each end of a promise: most remainders occur among as many.
    at_each_end: int = 8
    # Times that a promise is narrowed and tried again.
    narrowed: int = 8
    # Names of one size that are tried together to explain a wrong file.
    names_of_one_size: int = 6
    # Sizes between others, where a size was written in a text.
    size_in_text: int = 4
    # A size that is larger than the recorded one by this factor is not recorded.
    far_factor: int = 16


@dataclass(frozen=True, slots=True)
class FarLimits:
    """Cases at sizes far from the recorded ones, and with values beyond the recorded range."""

    # Work of the runs at far sizes, one for each name: times the recorded work, or in total where
    # that is more. Code that nobody sees may be wrong only there.
    work_factor: int = 2
    work: int = 1 << 32
    # The same for the least far sizes, of all names: a row may be a picture, which takes long.
    least_work: int = 1 << 33
    # Work of one run, up to which more values are tried than usual.
    cheap_run: int = 1 << 21
    # The other sizes. Of one element a sum is the element, and a softmax is 1; of two, a mask
    # leaves one.
    smallest: int = 3
    # Runs with other values at sizes for which a file is to be promised that is wrong beyond them.
    other_values: int = 8


@dataclass(frozen=True, slots=True)
class ProposalLimits:
    """Proposals of sizes that nobody named."""

    # Runs of the model at other sizes; a quarter for heavy models.
    trials: int = 48
    # Sizes that are considered in place of one that a model treats specially.
    in_place_of_special: int = 4
    # Exports, each with fewer sizes than the one before it, whose file was wrong.
    exports: int = 3
    # Modules of a script whose calls are kept, and calls of each, all with different shapes.
    modules: int = 64
    calls: int = 8
    # Bytes of the inputs that are kept of these calls.
    kept_inputs: int = 1 << 30


@dataclass(frozen=True, slots=True)
class CombinationLimits:
    """Combinations of answers to questions about sizes."""

    # Cases for each question, and for all.
    cases_for_each: int = 8
    cases: int = 40
    # Cases for a single question: the code behind it may depend on sizes it does not ask about.
    cases_of_one: int = 2
    # Questions that are combined, in the order in which the model asks them.
    questions: int = 40
    # Answers up to which three are combined; beyond, two: their number grows with the power.
    threes: int = 20
    # Sizes that are drawn to find the combinations.
    drawn: int = 256
    # Sizes of one name that are combined with as many of another, and pairs of names.
    sizes_of_a_pair: int = 24
    pairs: int = 16


@dataclass(frozen=True, slots=True)
class RoundLimits:
    """Rounds of the model's loops."""

    # Rounds that are recorded: few models have so many layers, heads or steps for another reason.
    recorded: int = 11
    # The same where so many need far larger inputs, which take as much more work in the proof.
    recorded_far: int = 6
    # Rounds that make a loop: of two, nobody can tell what counts them.
    alike: int = 3
    # Rounds at either end that may be unlike the others.
    unlike: int = 2
    # Rounds beyond the number of coefficients of a curve through numbers.
    beyond_coefficients: int = 2
    # Steps of a stair that must be seen; one more if they come in every round.
    stair_steps: int = 2
    # Rounds back that a value may be read from.
    back: int = 4
    # Entries of a list that one round gives.
    entries: int = 32
    # Starts of a repeat that are tried.
    starts: int = 32
    # Factor of sizes that nothing names, to see more rounds.
    unnamed_factor: int = 5
    # Factor of the sizes for loops that only fold; with more, the proof takes too long.
    fewer_factor: int = 2
    # Factor of all sizes if there were too few rounds.
    larger_factor: int = 6
    # Rounds, or questions, of a loop that may never end because its answers are not the true ones.
    endless: int = 1000
    # The same for questions beside the one that ends the rounds.
    other_questions: int = 200
    # Rounds of a short recording, which longer ones are compared with, whatever it costs.
    short: int = 5

    @property
    def alike_far(self) -> int:
        """Rounds that are alike of those recorded at far larger sizes."""
        return self.recorded_far - self.unlike


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """Nodes of recordings, graphs and formulas of sizes, and places among them."""

    # One recording with other answers: times the first one's nodes, plus some.
    forced_factor: int = 8
    forced_addition: int = 2000
    # The same where a fixed number of rounds asks: with other answers, there are no more of them.
    in_turn_addition: int = 64
    # All such recordings: a number, or a multiple of the first one's nodes if that is more.
    # A solver may ask at each step how large its error is: no number of recordings covers its ways.
    branches: int = 6000
    branches_factor: int = 6
    # All recordings for branches in the rounds of a loop.
    branches_in_rounds: int = 100_000
    # A recording at a far size: times the recorded nodes, plus some.
    far_size_factor: int = 2
    far_size_addition: int = 64
    # Rounds until a condition holds; more show nothing new.
    rounds: int = 20_000
    # Between a number and the sizes that it is made of.
    size_formula: int = 64
    # A graph that onnx's reference evaluator computes, in Python.
    reference: int = 2048
    # Divisions that are followed: what was divided may be made of others.
    divisions: int = 8
    # Places where two recordings may meet again: for one question, and for all, because they nest.
    meetings: int = 200
    all_meetings: int = 1000
    # Ifs in one another of which both sides are computed: each is written twice.
    nested_ifs: int = 3


@dataclass(frozen=True, slots=True)
class ElementLimits:
    """Elements of tensors."""

    # A constant that may be a counter or an index, so it is compared by its numbers.
    counter: int = 16
    # A constant that may hold sizes, so each of its numbers may have a formula.
    sizes: int = 64
    # A tensor that the model takes as a list of numbers.
    listed: int = 1024
    # A constant that may be a table; larger ones are weights, and follow no counter.
    table: int = 1 << 16
    # Columns of a table that may differ in meaning.
    columns: int = 8
    # A divisor of sizes whose remainders are followed.
    divisor: int = 1 << 12
    # Floats of an input that are drawn in float64: in float32, this takes a quarter of the time.
    drawn_in_float64: int = 1 << 20
    # Elements compared in one step, to bound the memory of a comparison.
    compared_at_once: int = 1 << 22
    # Outputs of a case: times the recorded ones, or in total, where data decide their number.
    outputs_factor: int = 8
    outputs: int = 1 << 26
    # Results of rounds until a condition holds; more show nothing new.
    rounds: int = 1 << 26
    # Inputs of a recording that is made several times, as a factor of the recorded inputs.
    repeated_inputs_factor: int = 64
    # Inputs and outputs that onnx's reference evaluator computes, in Python.
    reference: int = 1 << 18
    # An output that a certificate holds whole; of a larger one it holds a sample of this size.
    certified: int = 1 << 14


@dataclass(frozen=True, slots=True)
class ByteLimits:
    """Bytes of memory."""

    # Results in one run of the model, or of the file, on inputs that hx made.
    results: float = 4e9
    # The same while the largest values that a model takes are searched, in many runs.
    search_results: int = 1 << 26
    # Weights of a model that may be loaded, and run, again and again.
    light_weights: int = 1 << 28
    # Weights of a model or a file that may be copied.
    copied_weights: int = 1 << 29
    # Weights of a file that runs with onnxruntime's optimisations, which copy all of them at worst.
    optimised_weights: int = 2 << 30
    # Memory that the runtime and the activations of a model need beside its weights.
    beside_weights: int = 512 << 20
    # Weights of a model on a GPU that is copied to the CPU.
    weights_on_cpu: int = 16 << 30
    # Tensors of a recording that are kept for the comparison of nodes.
    kept_tensors: int = 1 << 30
    # Weights that onnx's reference evaluator computes with.
    reference_weights: int = 1 << 26
    # Buffers that are copied before a run rather than when the model writes to them.
    buffers: int = 64 << 20
    # Values put in for weights that are elsewhere: one tensor, and all of them.
    absent_weight: int = 64 << 10
    absent_weights: int = 64 << 20
    # Inputs and outputs in a certificate, before compression, beside the recorded ones.
    certificate: int = 16 << 20
    # Results of the model that are kept for equal inputs of further proofs.
    known_results: int = 1 << 28
    # A piece of a large tensor or file: Ctrl-C is answered between two of them.
    piece: int = 16 << 20


@dataclass(frozen=True, slots=True)
class FormulaLimits:
    """Numbers that the formula of a number may have: those that people write in code."""

    # Digits of a factor, and of a power.
    factor_digits: int = 6
    power_digits: int = 3
    # The largest denominator of a factor that is a fraction.
    denominator: int = 10_000
    # The largest denominator of an angle, as a fraction of a half turn.
    angle_denominator: int = 48


@dataclass(frozen=True, slots=True)
class ObjectLimits:
    """Python objects that are searched or cached."""

    # Things that hang from a module, or from one holder of tensors: a trainer holds its loaders.
    of_one_holder: int = 5000
    # Things that are searched for the holder of a tensor, from above.
    holders: int = 200_000
    # Rounds of the same search from below, and things in each.
    holder_rounds: int = 16
    holders_in_a_round: int = 64
    # Entries of a table of functions that are searched for functions.
    functions_in_a_table: int = 256
    # Keys of a table, or numbers of an array, that a size is compared with one by one.
    keys: int = 16
    # Functions that are read to find compiled code that they call.
    functions_read: int = 64
    # Entries of a cache.
    cached: int = 8192


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """Lines, names and places that a text shows of many."""

    # Inputs, outputs, and findings of one level, in a summary.
    summary: int = 3
    # Letters of the value of one line in a summary: 80 columns less the widest name.
    line: int = 66
    # Wrong cases in full, and all cases by name.
    wrong_cases: int = 1
    cases: int = 8
    # Sizes of a promise that failed.
    sizes: int = 4
    # Differences of two recordings, and entries of a list in one of them.
    differences: int = 5
    entries: int = 4
    # Letters of the formula of a size: nobody reads a longer one.
    formula: int = 400
    # Letters of a size in the summary: a longer formula says less than a question mark.
    size: int = 40
    # Letters of the error with which a strategy ended: two lines of a table.
    outcome: int = 64
    # Operators of a converter in the list of them.
    operators: int = 5
    # Places of a call without a converter.
    places: int = 6
    # Nodes with the largest errors, and levels of modules.
    worst_nodes: int = 10
    module_levels: int = 2
    # Dots of a chart: of more, each stretch shows its worst.
    dots: int = 3000


@dataclass(frozen=True, slots=True)
class Budget:
    """All limits, by the unit in which they count."""

    work: WorkLimits = WorkLimits()
    runs: RunLimits = RunLimits()
    questions: QuestionLimits = QuestionLimits()
    effort: EffortLimits = EffortLimits()
    sizes: SizeLimits = SizeLimits()
    far: FarLimits = FarLimits()
    proposals: ProposalLimits = ProposalLimits()
    combinations: CombinationLimits = CombinationLimits()
    rounds: RoundLimits = RoundLimits()
    nodes: NodeLimits = NodeLimits()
    elements: ElementLimits = ElementLimits()
    bytes: ByteLimits = ByteLimits()
    formulas: FormulaLimits = FormulaLimits()
    objects: ObjectLimits = ObjectLimits()
    shown: ShownLimits = ShownLimits()


BUDGET = Budget()
