#include "tracing/flow/matching.h"

#include <algorithm>

namespace kintsugi::flow {
namespace {

struct Message {
  EventId event = kNone;
  int64_t begin = 0, end = 0;
};

struct Side {
  std::vector<Message> messages;
  size_t at = 0;
  uint32_t piece = 0;

  bool done() const { return at == messages.size(); }
  const Message& now() const { return messages[at]; }
};

/// Sorts by place and takes away what an earlier message of the same side has.
void tidy(Side& side, size_t& overlaps) {
  std::sort(side.messages.begin(), side.messages.end(), [](const Message& a, const Message& b) {
    return std::tie(a.begin, a.event) < std::tie(b.begin, b.event);
  });
  int64_t taken = std::numeric_limits<int64_t>::min();
  std::vector<Message> kept;
  for (Message message : side.messages) {
    if (message.begin < taken) {
      ++overlaps;
      message.begin = std::min(taken, message.end);
    }
    taken = std::max(taken, message.end);
    if (message.begin < message.end) kept.push_back(message);
  }
  side.messages = std::move(kept);
}

/// Walks both sides at once: a unit ends where the first of the two messages does, or where the other begins.
void match_stream(Side& sends, Side& recvs, Matching& matching) {
  int64_t at = std::numeric_limits<int64_t>::min();
  while (!sends.done() || !recvs.done()) {
    const auto next = [&](const Side& side) {
      return side.done() ? std::numeric_limits<int64_t>::max() : side.now().begin;
    };
    at = std::max(at, std::min(next(sends), next(recvs)));
    Unit unit{.begin = at, .end = std::numeric_limits<int64_t>::max()};
    const auto take = [&](Side& side, EventId& event, uint32_t& piece) {
      if (side.done()) return;
      const bool inside = side.now().begin <= at;
      unit.end = std::min(unit.end, inside ? side.now().end : side.now().begin);
      if (inside) event = side.now().event, piece = ++side.piece;
    };
    take(sends, unit.send, unit.send_piece);
    take(recvs, unit.recv, unit.recv_piece);
    matching.units.push_back(unit);
    at = unit.end;
    for (Side* side : {&sends, &recvs})
      if (!side->done() && side->now().end <= at) ++side->at, side->piece = 0;
  }
}

void match_datagrams(Side& sends, Side& recvs, Matching& matching) {
  const auto tidy_marks = [&](Side& side) {
    std::sort(side.messages.begin(), side.messages.end(), [](const Message& a, const Message& b) {
      return std::tie(a.begin, a.event) < std::tie(b.begin, b.event);
    });
    const auto last = std::unique(side.messages.begin(), side.messages.end(),
                                  [](const Message& a, const Message& b) { return a.begin == b.begin; });
    matching.overlaps += static_cast<size_t>(side.messages.end() - last);
    side.messages.erase(last, side.messages.end());
  };
  tidy_marks(sends);
  tidy_marks(recvs);
  while (!sends.done() || !recvs.done()) {
    const bool sent = !sends.done() && (recvs.done() || sends.now().begin <= recvs.now().begin);
    const bool received = !recvs.done() && (sends.done() || recvs.now().begin <= sends.now().begin);
    const Message& message = sent ? sends.now() : recvs.now();
    matching.units.push_back({.send = sent ? sends.now().event : kNone,
                              .recv = received ? recvs.now().event : kNone,
                              .send_piece = sent,
                              .recv_piece = received,
                              .begin = message.begin,
                              .end = message.end});
    sends.at += sent;
    recvs.at += received;
  }
}

}  // namespace

Matching match_messages(const Trace& trace) {
  std::vector<std::pair<Side, Side>> channels(trace.channels().size());
  for (EventId id = 0; id < trace.size(); ++id) {
    const Event& event = trace.event(id);
    if (event.kind != Kind::kSend && event.kind != Kind::kRecv) continue;
    auto& [sends, recvs] = channels[event.channel];
    (event.kind == Kind::kSend ? sends : recvs)
        .messages.push_back({id, event.offset, event.offset + static_cast<int64_t>(event.size)});
  }
  Matching matching;
  for (size_t channel = 0; channel < channels.size(); ++channel) {
    auto& [sends, recvs] = channels[channel];
    if (trace.channels()[channel].datagrams) {
      match_datagrams(sends, recvs, matching);
      continue;
    }
    tidy(sends, matching.overlaps);
    tidy(recvs, matching.overlaps);
    match_stream(sends, recvs, matching);
  }
  return matching;
}

}  // namespace kintsugi::flow
