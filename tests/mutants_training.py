"""Mistakes in training: where drafts begin, what is learned, what is judged, what goes on."""

from mutant import TORCH, Mutant

TRAIN = TORCH + "train/"
HEADS = "tests/torch/test_train_heads.py::"
DRAFTS = "tests/torch/test_train_drafts.py::"
TRAINING = "tests/torch/test_train_loop.py::"
LESSONS = "tests/torch/test_train_lessons.py::"
SAME = HEADS + "test_a_trained_head_drafts_as_the_decoding_one"
WEIGHED = HEADS + "test_a_loss_weighs_depths_and_counts_only_what_can_be_judged"

TRAINED = [
    Mutant(
        "a trained pair has the token that gave the state",
        TRAIN + "heads/layered.py",
        "embeddings[placed.pairs + 1]",
        "embeddings[placed.pairs]",
        SAME + "[eagle-none]",
    ),
    Mutant(
        "a guess is one position early",
        TRAIN + "heads/layered.py",
        "chain.append(layer.memory(x, at + depth))",
        "chain.append(layer.memory(x, at))",
        SAME + "[msd-none]",
    ),
    Mutant(
        "a start sees the slot after it",
        TRAIN + "heads/layered.py",
        "seen = count <= at.unsqueeze(-1)",
        "seen = count <= at.unsqueeze(-1) + 1",
        SAME + "[msd-none]",
    ),
    Mutant(
        "deeper guesses weigh the same",
        TRAIN + "distill/loss.py",
        "weight = loss.decay**depth",
        "weight = 1.0",
        WEIGHED,
    ),
    Mutant(
        "guesses past the end of an answer are learned",
        TRAIN + "heads/lesson.py",
        "learned.gather(1, there.clamp(max=last)) & (there <= last)",
        "there <= last",
        WEIGHED,
    ),
    Mutant(
        "a round keeps one guess more",
        TRAIN + "distill/acceptance.py",
        "columns[at] + kept[at] + 1,",
        "columns[at] + kept[at] + 2,",
        HEADS + "test_rounds_walk_over_what_is_kept",
    ),
    Mutant(
        "images come in an epoch early",
        TRAIN + "distill/curriculum.py",
        "(epoch - half) / (epochs - half)",
        "(epoch - half + 1) / (epochs - half)",
        HEADS + "test_images_come_in_by_the_schedule[21-0.05]",
    ),
    Mutant(
        "random numbers go on from where they were",
        TRAIN + "loop.py",
        "torch.manual_seed(self.step)",
        "pass",
        HEADS + "test_an_interrupted_head_ends_at_the_same_weights",
    ),
    Mutant(
        "the last state is kept, not the best",
        TRAIN + "exam.py",
        "if mark.value > self.best:",
        "if mark.value:",
        HEADS + "test_training_ends_early_and_keeps_the_best",
    ),
    Mutant(
        "a half-written answer is read",
        TRAIN + "distill/tape.py",
        'whole = content.rfind(b"\\n") + 1',
        "whole = len(content)",
        LESSONS + "test_answers_go_on_after_a_kill",
    ),
    Mutant(
        "a draft learns after an image, not after the text",
        TRAIN + "drafts/seats.py",
        "np.full(positions, PLACE)]\n        start = end",
        "np.full(positions, PLACE)]\n        start = end - 1",
        DRAFTS + "test_images_take_a_drafts_own_number_of_columns[2-ids2-places2]",
    ),
    Mutant(
        "a cut answer keeps images that come later",
        TRAIN + "drafts/training.py",
        "kept += some[: len(has)]",
        "kept += some",
        DRAFTS + "test_images_that_were_cut_off_are_not_shown",
    ),
    Mutant(
        "the projector's stage trains the Llama too",
        TRAIN + "drafts/training.py",
        "(student.llama, method.rate * stage.llama)",
        "(student.llama, method.rate)",
        DRAFTS + "test_the_projector_stage_leaves_the_llama_alone",
    ),
    Mutant(
        "a process without gradients is left out of the mean",
        TRAIN + "team.py",
        "            if parameter.grad is None:\n                parameter.grad = ",
        "            if parameter.grad is None:\n                _ = ",
        "tests/torch/test_train_team.py::test_gradients_are_means_also_where_one_process_has_none",
    ),
    Mutant(
        "a resumed log repeats steps",
        TRAIN + "log.py",
        "name.removesuffix(HELD_OUT) == stage and int(number) > step",
        "False",
        TRAINING + "test_a_resumed_log_holds_every_row_once[between-two]",
    ),
    Mutant(
        "a worker outlives its run",
        TRAIN + "data.py",
        "worker_init_fn=_end_with_parent",
        "worker_init_fn=None",
        "tests/torch/test_train_data.py::test_a_worker_ends_with_a_parent_that_is_killed",
    ),
    Mutant(
        "a run that is ended forgets the step it came to",
        TRAIN + "loop.py",
        "        self.save()\n        return (\n",
        "        return (\n",
        TRAINING + "test_a_run_that_is_ended_says_where_it_stands_and_goes_on_there[SystemExit]",
    ),
    Mutant(
        "a run ends between a step and its count",
        TRAIN + "interrupt.py",
        "came.append(number)",
        "signal.default_int_handler(number, _)",
        TRAINING + "test_what_must_be_done_as_a_whole_is_done_before_a_run_ends[step]",
    ),
    Mutant(
        "processes go on before the best state is written",
        TRAIN + "loop.py",
        "machine.team.told(0.0)",
        "pass",
        TRAINING + "test_other_processes_write_nothing_and_wait_for_the_best_state",
    ),
    Mutant(
        "a stage is done before its export",
        TRAIN + "stages.py",
        "exported = stage not in EXPORTED or checkpoint(directory, stage).exists()",
        "exported = True",
        "tests/torch/test_train.py::test_a_kill_before_the_export_loses_nothing",
    ),
]
