#include "tests/simulation/runtime/sim_wire.h"

#include <algorithm>

#include "common/base/assert.h"
#include "common/base/crc32c.h"

namespace kintsugi::simulation {
namespace {
/// A segment is lost at most so often in a row.
constexpr int kMaxRetransmits = 5;
}  // namespace

Host& Wire::host(const std::string& name) {
  if (Host* known = find(name)) return *known;
  auto host = std::make_unique<Host>();
  host->name = name;
  host->index = hosts_.size();
  const uint64_t rate = conditions_.link_bytes_per_second;
  host->up = std::make_unique<Link>(
      clock_, rate,
      [this](const Parcel& parcel) {
        const auto& ends = parcel.stream->ends;
        return carries(*ends[parcel.from].host, *ends[1 - parcel.from].host);
      },
      [this](Parcel parcel, TimePoint start, TimePoint finish) { leave(std::move(parcel), start, finish); });
  host->down = std::make_unique<Link>(
      clock_, rate, [](const Parcel&) { return true; },
      [this](Parcel parcel, TimePoint, TimePoint finish) { arrive(std::move(parcel), finish); });
  by_name_[name] = host.get();
  hosts_.push_back(std::move(host));
  return *hosts_.back();
}

Host* Wire::find(const std::string& name) {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

bool Wire::reachable(const Host& a, const Host& b) const {
  if (!a.powered || !b.powered) return false;
  if (&a == &b) return true;
  return a.group == b.group && !cuts_.contains(std::minmax(a.index, b.index));
}

bool Wire::carries(const Host& from, const Host& to) const {
  return reachable(from, to) && !one_way_cuts_.contains({from.index, to.index});
}

void Wire::reachability_changed() {
  bool any_cut = false;
  for (const auto& [id, stream] : streams_) {
    const Host& dialler = *stream->ends[0].host;
    const Host& acceptor = *stream->ends[1].host;
    if (carries(dialler, acceptor) && carries(acceptor, dialler)) {
      stream->cut_since.reset();
    } else {
      if (!stream->cut_since) stream->cut_since = clock_.now();
      any_cut = true;
    }
  }
  if (any_cut) clock_.call_at(clock_.now() + conditions_.break_after, [this] { break_stale(); });
  for (const auto& host : hosts_)
    host->up->unpark();
}

void Wire::break_stale() {
  std::vector<std::shared_ptr<Stream>> stale;
  for (const auto& [id, stream] : streams_) {
    if (stream->cut_since && *stream->cut_since + conditions_.break_after <= clock_.now())
      stale.push_back(stream);
  }
  for (const auto& stream : stale) {
    for (int side : {0, 1}) {
      fail(stream, side,
           {Code::kUnavailable, "connection to " + stream->ends[1 - side].name.to_string() + " timed out"});
    }
  }
}

Duration Wire::draw_latency(const Host& from, const Host& to) {
  if (&from == &to) return conditions_.loopback_latency;
  Duration latency = conditions_.latency + from.extra_latency + to.extra_latency;
  latency += Duration(random_.below(static_cast<uint64_t>(conditions_.jitter.count()) + 1));
  if (conditions_.loss_per_million > 0) {
    for (int i = 0; i < kMaxRetransmits && random_.below(1'000'000) < conditions_.loss_per_million; ++i) {
      latency += conditions_.retransmit_after * (1 << i);
    }
  }
  return latency;
}

std::shared_ptr<Stream> Wire::connect(Host& dialler, runtime::Endpoint dialler_name, Host& acceptor,
                                      runtime::Endpoint acceptor_name) {
  auto stream = std::make_shared<Stream>();
  stream->id = next_stream_++;
  stream->ends[0].host = &dialler;
  stream->ends[0].name = std::move(dialler_name);
  stream->ends[1].host = &acceptor;
  stream->ends[1].name = std::move(acceptor_name);
  streams_[stream->id] = stream;
  return stream;
}

void Wire::send(const std::shared_ptr<Stream>& stream, int from, Segment segment) {
  End& sender = stream->ends[from];
  End& receiver = stream->ends[1 - from];
  sender.host->bytes_sent += segment.size;
  if (conditions_.flips_per_million > 0 && segment.size > 0 &&
      random_.below(1'000'000) < conditions_.flips_per_million) {
    segment.bytes[random_.below(segment.size)] ^=
        std::byte{static_cast<unsigned char>(1u << random_.below(8))};
  }
  Parcel parcel{stream, from, std::move(segment), {}};
  if (sender.host != receiver.host) {
    sender.host->up->push(std::move(parcel));
  } else {
    leave(std::move(parcel), clock_.now(), clock_.now());
  }
}

void Wire::leave(Parcel parcel, TimePoint start, TimePoint finish) {
  End& sender = parcel.stream->ends[parcel.from];
  Host& to = *parcel.stream->ends[1 - parcel.from].host;
  Duration latency = draw_latency(*sender.host, to);
  if (conditions_.stalls_per_million > 0 && parcel.segment.kind == Segment::Kind::kData &&
      random_.below(1'000'000) < conditions_.stalls_per_million)
    latency += Duration(random_.below(static_cast<uint64_t>(conditions_.longest_stall.count())));
  const TimePoint first_byte_at = std::max(start + latency, sender.last_arrival);
  sender.last_arrival = first_byte_at;
  parcel.last_byte_at = first_byte_at + (finish - start);
  // std::function wants to copy what it holds.
  auto shared = std::make_shared<Parcel>(std::move(parcel));
  const bool loopback = sender.host == &to;
  clock_.call_at(first_byte_at, [this, shared, loopback, &to] {
    if (loopback) {
      deliver(std::move(*shared));
    } else {
      to.down->push(std::move(*shared));
    }
  });
}

void Wire::arrive(Parcel parcel, TimePoint finish) {
  End& sender = parcel.stream->ends[parcel.from];
  const TimePoint at = std::max({finish, parcel.last_byte_at, sender.last_delivery});
  // A segment sent earlier may be due at this instant and not have had its turn.
  const bool is_next = sender.last_delivery < clock_.now();
  sender.last_delivery = at;
  if (is_next && at <= clock_.now()) return deliver(std::move(parcel));
  auto shared = std::make_shared<Parcel>(std::move(parcel));
  clock_.call_at(at, [this, shared] { deliver(std::move(*shared)); });
}

void Wire::deliver(Parcel parcel) {
  const int side = 1 - parcel.from;
  End& end = parcel.stream->ends[side];
  Segment& segment = parcel.segment;
  events_.event(clock_.now().time_since_epoch().count(), parcel.stream->ends[parcel.from].host->index,
                end.host->index, parcel.flow(), static_cast<uint8_t>(segment.kind), segment.size,
                segment.size > 0 ? crc32c({segment.bytes.get(), segment.size}) : 0);
  if (!end.host->powered || !end.failure.ok()) return;
  if (end.closed) {
    if (segment.kind == Segment::Kind::kData) reset(parcel.stream, side);
    return;
  }
  if (conditions_.resets_per_million > 0 && segment.kind == Segment::Kind::kData &&
      random_.below(1'000'000) < conditions_.resets_per_million) {
    for (const int broken : {0, 1}) {
      const std::string peer = parcel.stream->ends[1 - broken].name.to_string();
      fail(parcel.stream, broken, {Code::kUnavailable, "connection reset by " + peer});
    }
    return;
  }
  switch (segment.kind) {
    case Segment::Kind::kData:
      end.host->bytes_received += segment.size;
      end.received_bytes += segment.size;
      end.received.push_back(std::move(segment));
      break;
    case Segment::Kind::kEnd: end.end_received = true; break;
    case Segment::Kind::kReset:
      fail(parcel.stream, side,
           {Code::kUnavailable, "connection reset by " + parcel.stream->ends[parcel.from].name.to_string()});
      return;
  }
  if (end.can_read()) end.readable.open();
}

void Wire::close(const std::shared_ptr<Stream>& stream, int side) {
  End& end = stream->ends[side];
  if (end.closed) return;
  const bool had_failed = !end.failure.ok();
  end.closed = true;
  end.readable.open();
  end.writable.open();
  if (!had_failed) {
    if (end.received_bytes > 0) {
      reset(stream, side);
    } else {
      send(stream, side, Segment{Segment::Kind::kEnd, nullptr, 0});
    }
  }
  forget_if_over(*stream);
}

void Wire::vanish(const std::shared_ptr<Stream>& stream, int side) {
  End& end = stream->ends[side];
  end.lost_power = true;
  end.host->up->discard(stream->flow(side));
  if (end.closed) return;
  end.closed = true;
  end.readable.open();
  end.writable.open();
  forget_if_over(*stream);
}

void Wire::fail(const std::shared_ptr<Stream>& stream, int side, Status why) {
  End& end = stream->ends[side];
  if (!end.alive()) return;
  end.failure = std::move(why);
  end.host->up->discard(stream->flow(side));
  end.readable.open();
  end.writable.open();
  forget_if_over(*stream);
}

void Wire::reset(const std::shared_ptr<Stream>& stream, int from) {
  End& end = stream->ends[from];
  if (end.reset_sent) return;
  end.reset_sent = true;
  end.host->up->discard(stream->flow(from));
  send(stream, from, Segment{Segment::Kind::kReset, nullptr, 0});
}

void Wire::forget_if_over(const Stream& stream) {
  if (!stream.ends[0].alive() && !stream.ends[1].alive()) streams_.erase(stream.id);
}

std::vector<std::shared_ptr<Stream>> Wire::streams_of(const Host& host) const {
  std::vector<std::shared_ptr<Stream>> streams;
  for (const auto& [id, stream] : streams_) {
    if (stream->ends[0].host == &host || stream->ends[1].host == &host) streams.push_back(stream);
  }
  return streams;
}

}  // namespace kintsugi::simulation
