"""The field `mmspec` of a request: what was drafted, all figures, and plain decoding."""

from support.live_server import Live, shown, text_of, words

ASKED = [{"role": "user", "content": [shown("red"), words("What?")]}]
DETAILS = {"details": True}


def chunks(server: Live, **fields):
    return server.chunks(**{"messages": ASKED, **fields})


def parts(found):
    """The text of each event, and whether it was drafted."""
    return [
        (chunk["choices"][0]["delta"]["content"], chunk["mmspec"]["drafted"])
        for chunk in found
        if "drafted" in chunk.get("mmspec", {})
    ]


def test_every_event_says_whether_its_text_was_drafted(pair: Live):
    found = chunks(pair, mmspec=DETAILS)
    told = parts(found)
    assert "".join(text for text, _ in told) == text_of(pair.chat(ASKED).json())
    answered = pair.service.queue.call(lambda: pair.service.cache._chats[-1].chat.answer)
    stream = pair.service.engine.target.tokenizer.stream()
    rounds = [(stream.push(r.tokens[: r.accepted]), r.accepted) for r in answered.rounds[:1]]
    assert told[0] == (rounds[0][0].removeprefix(" "), True)
    assert {drafted for _, drafted in told} == {True, False}


def test_the_prompt_is_seen_to_be_read_before_the_answer(pair: Live):
    asked = [{"role": "user", "content": [shown("blue"), words("What else? " * 40)]}]
    found = chunks(pair, mmspec=DETAILS, messages=asked)
    read = [chunk["mmspec"]["prompt"] for chunk in found if "prompt" in chunk.get("mmspec", {})]
    stats = found[-1]["mmspec"]["stats"]
    total = stats["prompt_tokens"] - stats["cached_tokens"]
    assert read[-1] == {"done": total, "total": total}
    done = [each["done"] for each in read]
    assert done == sorted(done)
    first = next(n for n, chunk in enumerate(found) if "drafted" in chunk.get("mmspec", {}))
    assert "prompt" in found[first - 1]["mmspec"]


def test_text_that_could_begin_a_stop_string_is_told_with_its_origin(pair: Live):
    told = parts(chunks(pair, mmspec=DETAILS))
    text = "".join(part for part, _ in told)
    stops = parts(chunks(pair, mmspec=DETAILS, stop=[text[5:8] + "?", text[-4:]]))
    letters = [(letter, drafted) for part, drafted in told for letter in part]
    cut = text.index(text[-4:])
    assert [(letter, drafted) for part, drafted in stops for letter in part] == letters[:cut]


def test_log_probabilities_come_once_beside_parts(pair: Live):
    found = chunks(pair, mmspec=DETAILS, logprobs=True)
    logged = [chunk["choices"][0]["logprobs"] for chunk in found]
    assert sum(len(each["content"]) for each in logged if each) == 12


def test_plain_decoding_says_the_same_with_a_round_for_every_token(pair: Live):
    drafted = pair.chat(ASKED, mmspec=DETAILS).json()
    plain = pair.chat(ASKED, mmspec={"details": True, "plain": True}).json()
    again = pair.chat(ASKED, mmspec=DETAILS).json()
    assert text_of(plain) == text_of(drafted) == text_of(again)
    assert plain["mmspec"].keys() == {"seed", "notes", "speed_up", "plain_reason", "stats"}
    stats = plain["mmspec"]["stats"]
    assert (stats["rounds"], stats["drafted"]) == (12, 0)
    accepted = drafted["usage"]["completion_tokens_details"]["accepted_prediction_tokens"]
    assert 0 < accepted == drafted["mmspec"]["stats"]["accepted"]
    assert again["mmspec"]["stats"]["rounds"] < 12
    assert again["mmspec"]["speed_up"] > 0
    cached = [r["usage"]["prompt_tokens_details"]["cached_tokens"] for r in (plain, again)]
    assert cached == [plain["usage"]["prompt_tokens"] - 1] * 2


def test_without_the_field_a_reply_says_its_seed_and_notes_alone(pair: Live):
    assert pair.chat(ASKED, seed=7).json()["mmspec"] == {"seed": 7, "notes": []}
    *before, last = chunks(pair, seed=8)
    assert all("mmspec" not in chunk for chunk in before)
    assert last["mmspec"] == {"seed": 8, "notes": []}
