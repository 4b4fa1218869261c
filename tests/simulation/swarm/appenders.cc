#include "tests/simulation/swarm/appenders.h"

#include <algorithm>
#include <cstring>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <fmt/format.h>

#include "common/base/hash.h"
#include "tests/simulation/cluster/client_program.h"

namespace kintsugi::simulation {
namespace {

/// Whoever waits for servers that are away gives up long before a run ends.
constexpr Duration kIoTimeout = std::chrono::seconds(60);

/// A record begins with this, which no hole does.
struct Header {
  uint32_t magic = 0x4b4c4f47;
  uint32_t record = 0;
  uint64_t bytes = 0;
};

std::vector<std::byte> make_record(uint32_t record, uint64_t bytes) {
  std::vector<std::byte> made(bytes);
  SimRandom(mix_bits(record)).fill(made);
  const Header header{.record = record, .bytes = bytes};
  std::memcpy(made.data(), &header, sizeof header);
  return made;
}

}  // namespace

Status Appenders::start() {
  for (size_t client = 1; client < cluster_.clients(); ++client) {
    auto log = std::make_unique<Log>();
    log->client = client;
    log->path = fmt::format("/log-{}", client);
    client::MemorySource nothing({});
    const auto made = cluster_.run(cluster_.client().write(log->path, nothing));
    if (!made) return made.error();
    log->inode = made->inode();
    logs_.push_back(std::move(log));
    files_.push_back(cluster_.client_program(client).client().open_files(
        {.io_timeout = kIoTimeout, .dirty_bytes = 1 << 20}));
  }
  return {};
}

void Appenders::stop() {
  for (auto& files : files_)
    (void)cluster_.run(files->stop());
  files_.clear();
}

void Appenders::begin(asio::awaitable<void> operation) {
  ++under_way_;
  asio::co_spawn(cluster_.simulation().executor(), std::move(operation), [this](std::exception_ptr error) {
    --under_way_;
    if (error) std::rethrow_exception(error);
  });
}

bool Appenders::begin_append(SimRandom& dice) {
  if (!may_begin()) return false;
  Log& log = *logs_[dice.below(logs_.size())];
  const uint64_t most = dice.below(3) == 0 ? kLargestRecord : 3000;
  const uint32_t record = next_record_++;
  log.begun.insert(record);
  begin(append(log, record, sizeof(Header) + dice.below(most)));
  return true;
}

bool Appenders::begin_change_mode(SimRandom& dice) {
  if (!may_begin()) return false;
  Log& log = *logs_[dice.below(logs_.size())];
  begin(change_mode(log, any_files(dice), 0600 + static_cast<uint32_t>(dice.below(0100))));
  return true;
}

bool Appenders::begin_read(SimRandom& dice) {
  if (!may_begin()) return false;
  Log& log = *logs_[dice.below(logs_.size())];
  begin(read(log, any_files(dice), false));
  return true;
}

asio::awaitable<void> Appenders::append(Log& log, uint32_t record, uint64_t bytes) {
  client::OpenFiles& files = *files_[log.client - 1];
  auto opened = co_await files.open({}, log.inode, true);
  Status outcome = opened ? Status{} : opened.error();
  if (opened) {
    const std::vector<std::byte> made = make_record(record, bytes);
    const auto at = co_await (*opened)->file().append({}, made);
    outcome = at ? co_await (*opened)->sync({}) : at.error();
    (void)co_await (*opened)->close({}, true);
  }
  ++coverage_.outcomes[fmt::format("append {}", outcome.ok() ? "ok" : code_name(outcome.code()))];
  if (outcome.ok()) log.acknowledged.insert(record);
}

asio::awaitable<void> Appenders::change_mode(Log& log, client::OpenFiles& files, uint32_t mode) {
  auto opened = co_await files.open({}, log.inode);
  if (!opened) co_return;
  proto::SetAttributesRequest request;
  request.set_mode(mode);
  const auto changed = co_await (*opened)->file().set_attributes({}, std::move(request));
  ++coverage_.outcomes[fmt::format("chmod {}", changed ? "ok" : code_name(changed.error().code()))];
  (void)co_await (*opened)->close({}, true);
}

asio::awaitable<void> Appenders::read(Log& log, client::OpenFiles& files, bool must_succeed) {
  const std::set<uint32_t> expected = log.acknowledged;
  auto opened = co_await files.open({}, log.inode);
  Status outcome = opened ? Status{} : opened.error();
  if (opened) {
    std::vector<std::byte> bytes((*opened)->file().size());
    const auto filled = co_await (*opened)->file().read({}, 0, bytes);
    outcome = filled ? Status{} : filled.error();
    if (filled) {
      bytes.resize(*filled);
      judge(log, expected, bytes);
    }
    (void)co_await (*opened)->close({}, true);
  }
  ++coverage_.outcomes[fmt::format("read of a log {}", outcome.ok() ? "ok" : code_name(outcome.code()))];
  if (!outcome.ok() && must_succeed) found(Violation::kUnreadable, log, outcome.to_string());
}

void Appenders::judge(const Log& log, const std::set<uint32_t>& expected, std::span<const std::byte> bytes) {
  std::set<uint32_t> seen;
  size_t at = 0;
  while (at < bytes.size()) {
    // A record that was given up may leave a hole before the next one.
    if (bytes[at] == std::byte{}) {
      ++at;
      continue;
    }
    Header header;
    const size_t left = bytes.size() - at;
    std::memcpy(&header, bytes.data() + at, std::min(left, sizeof header));
    // One whose append has not ended, or failed, may be there in part.
    if (left < sizeof header && expected != log.begun) break;
    if (header.magic != Header{}.magic || !log.begun.contains(header.record) ||
        header.bytes < sizeof header || header.bytes > sizeof header + kLargestRecord)
      return found(Violation::kWrongBytes, log,
                   fmt::format("no record begins at byte {} of {}", at, bytes.size()));
    const std::vector<std::byte> whole = make_record(header.record, header.bytes);
    const auto seen_of_it = bytes.subspan(at, std::min<size_t>(left, whole.size()));
    const auto same = static_cast<size_t>(
        std::mismatch(seen_of_it.begin(), seen_of_it.end(), whole.begin()).first - seen_of_it.begin());
    if (same < whole.size() && expected.contains(header.record))
      return found(Violation::kWrongBytes, log,
                   fmt::format("record {}, which was synced, is at byte {} and differs at its byte {} of {}",
                               header.record, at, same, whole.size()));
    if (!seen.insert(header.record).second)
      return found(Violation::kWrongBytes, log, fmt::format("record {} is there twice", header.record));
    at += same;
  }
  for (const uint32_t record : expected)
    if (!seen.contains(record))
      return found(Violation::kWrongBytes, log,
                   fmt::format("record {}, which was synced, is not among the {} records in {} bytes", record,
                               seen.size(), bytes.size()));
}

void Appenders::found(Violation violation, const Log& log, std::string message) {
  if (!finding_) finding_ = {violation, fmt::format("{}: {}", log.path, message)};
}

Finding Appenders::read_everything() {
  for (auto& log : logs_)
    for (auto& files : files_)
      begin(read(*log, *files, true));
  if (!cluster_.simulation().run_until([this] { return under_way_ == 0; }, SimulatedCluster::kOperationLimit))
    return {Violation::kNoEnd, "reads of logs do not end although there is no fault"};
  return take_finding();
}

}  // namespace kintsugi::simulation
