/// One simulated TCP connection: the state of both of its ends, and the Connection that a program holds of one end.
#pragma once

#include <array>
#include <deque>
#include <optional>

#include "common/runtime/network.h"
#include "tests/simulation/runtime/gate.h"
#include "tests/simulation/runtime/sim_link.h"

namespace kintsugi::simulation {

struct Host;
class Wire;

/// One end of a Stream.
struct End {
  Host* host = nullptr;
  runtime::Endpoint name;

  bool closed = false;  ///< its own program closed it, or died
  Status failure;       ///< not ok after a reset or time-out; bytes that arrived before can still be read
  bool reset_sent = false;
  bool lost_power = false;  ///< its host vanished without a word

  Gate readable;
  bool reading = false;
  size_t wanted = 1;  ///< the reader is woken when so many bytes are there
  std::deque<Segment> received;
  size_t received_bytes = 0;  ///< in `received` and not yet read
  size_t read_offset = 0;     ///< in received.front()
  bool end_received = false;

  Gate writable;
  bool writing = false;
  size_t outstanding_bytes = 0;  ///< accepted by write() here and not yet read by the other end
  TimePoint last_arrival;        ///< when the last bytes that this end sent arrive: later ones never overtake
  TimePoint last_delivery;

  bool alive() const { return !closed && failure.ok(); }
  bool can_read() const { return !alive() || end_received || received_bytes >= wanted; }
};

struct Stream {
  /// Bytes between a write() and the other end's read(); more make the writer wait.
  static constexpr size_t kWindowBytes = 4 * 1024 * 1024;

  uint64_t id = 0;
  std::array<End, 2> ends;             ///< 0 is the one that dialled, 1 the one that accepted
  std::optional<TimePoint> cut_since;  ///< since when its hosts cannot reach each other

  uint64_t flow(int from) const { return id * 2 + static_cast<uint64_t>(from); }
};

class SimConnection final : public runtime::Connection {
 public:
  SimConnection(Wire& wire, std::shared_ptr<Stream> stream, int side)
      : wire_(wire), stream_(std::move(stream)), side_(side) {}
  ~SimConnection() override { close(); }

  asio::awaitable<Result<size_t>> read_some(std::span<std::byte> into) override;
  asio::awaitable<Status> read_exact(std::span<std::byte> into) override;
  asio::awaitable<Status> write(std::span<const asio::const_buffer> buffers) override;
  void close() override;
  bool is_open() const override { return stream_->ends[side_].alive(); }
  std::string peer() const override { return stream_->ends[1 - side_].name.to_string(); }
  runtime::PeerProof peer_proof() const override { return runtime::PeerProof::kHost; }

 private:
  /// Copies what has arrived, at most into.size(), and lets the writer go on.
  static size_t take(Stream& stream, int side, std::span<std::byte> into);

  Wire& wire_;
  std::shared_ptr<Stream> stream_;
  int side_;
};

}  // namespace kintsugi::simulation
