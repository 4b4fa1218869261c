#include "tests/simulation/swarm/inspector.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/assert.h"
#include "erasure/policy.h"
#include "metaserver/schema/keys.h"

namespace kintsugi::simulation {
namespace {

namespace keys = metaserver::keys;

constexpr size_t kAllChunks = 1'000'000;

template <class Visit>
void for_each_of(const MemoryStoreDisk::Map& metadata, keys::Kind kind, Visit visit) {
  const keys::Range range = keys::all(kind);
  const auto end = metadata.lower_bound(range.end);
  for (auto entry = metadata.lower_bound(range.begin); entry != end; ++entry)
    visit(entry->first, entry->second);
}

template <class Message>
Message parsed(const std::string& bytes) {
  Message message;
  KINTSUGI_ASSERT(message.ParseFromString(bytes));
  return message;
}

}  // namespace

Inspector::Inspector(SimulatedCluster& cluster) : cluster_(cluster), servers_(cluster.chunkservers()) {}

const MemoryStoreDisk::Map& Inspector::metadata() const {
  return instead_ != nullptr ? *instead_ : cluster_.durable_metadata();
}

Inspector::Stripes Inspector::stripes() const {
  Stripes stripes;
  for_each_of(metadata(), keys::Kind::kStripe, [&](const std::string& key, const std::string& value) {
    stripes[StripeId{keys::first_id(key)}] = parsed<proto::StoredStripe>(value);
  });
  return stripes;
}

void Inspector::see_servers() {
  for (size_t number = 0; number < servers_.size(); ++number) {
    chunkserver::ChunkStore* store = cluster_.store(number);
    if (store == nullptr) continue;
    Server& server = servers_[number];
    server.id = store->identity().server;
    const std::set<ChunkId> before = std::exchange(server.chunks, {});
    for (const auto& chunk : store->list({}, kAllChunks))
      server.chunks.insert(chunk.id);
    for (const ChunkId chunk : before) {
      const bool gone = !server.chunks.contains(chunk);
      const bool was_damaged = server.in_doubt || server.doubtful.contains(chunk);
      if (gone && (was_damaged || server.lacks_a_disk)) server.excused.insert(chunk);
      if (gone && !was_damaged && server.lacks_a_disk) server.on_the_disk.insert(chunk);
      // A disk that is dropped takes it along and may bring it back with a new process, whose report tells of it.
      if (gone) placed_.erase({server.id, chunk});
      if (gone) server.doubtful.erase(chunk);  // it was found out; one that comes again is another one
    }
    std::erase_if(server.excused, [&](ChunkId chunk) { return server.chunks.contains(chunk); });
    note_joined(server, *store);
  }
}

void Inspector::note_joined(Server& server, const chunkserver::ChunkStore& store) {
  if (!server.lacks_a_disk || server.in_doubt || store.counters().disks_joined == 0) return;
  if (store.known_space().failed_disks > 0) return;
  for (const ChunkId chunk : std::exchange(server.on_the_disk, {}))
    server.excused.erase(chunk);
  server.lacks_a_disk = false;
}

const Inspector::Server* Inspector::server_with(ServerId id) const {
  for (const Server& server : servers_)
    if (id && server.id == id) return &server;
  return nullptr;
}

size_t Inspector::tolerated(const proto::StoredStripe& stripe) {
  // One whose bytes the metaserver keeps itself has no code and no chunks.
  if (stripe.chunks_size() == 0) return 0;
  const auto policy = erasure::Policy::parse(stripe.policy());
  KINTSUGI_ASSERT(policy);
  return policy->tolerated();
}

size_t Inspector::losses(StripeId id, const proto::StoredStripe& stripe, bool pessimistic) const {
  size_t lost = 0;
  for (int index = 0; index < stripe.chunks_size(); ++index) {
    const proto::StoredChunk& chunk = stripe.chunks(index);
    if (chunk.server_id() == 0 && chunk.length() == 0) continue;
    const ChunkId name{id, static_cast<uint32_t>(index)};
    const Server* server = server_with(ServerId{chunk.server_id()});
    const bool there = server != nullptr && server->chunks.contains(name);
    const bool doubtful = there && (server->in_doubt || server->doubtful.contains(name));
    lost += !there || (pessimistic && doubtful);
  }
  return lost;
}

Finding Inspector::look() {
  see_servers();
  std::set<std::pair<ServerId, ChunkId>> placed;
  for (const auto& [id, stripe] : stripes()) {
    if (seen_.insert(id).second && losses(id, stripe, true) > tolerated(stripe)) endangered_.insert(id);
    if (Finding finding = look_at(id, stripe)) return finding;
    if (instead_ != nullptr) continue;
    for (int index = 0; index < stripe.chunks_size(); ++index)
      placed.insert({ServerId{stripe.chunks(index).server_id()}, {id, static_cast<uint32_t>(index)}});
  }
  // One that left its place when it was not there any more is not the one that comes there later.
  for (const Server& server : servers_)
    std::erase_if(placed_, [&](const auto& place) {
      return place.first == server.id && !server.chunks.contains(place.second) && !placed.contains(place);
    });
  placed_.merge(placed);
  return {};
}

Finding Inspector::look_at(StripeId id, const proto::StoredStripe& stripe) const {
  std::set<uint64_t> places;
  for (int index = 0; index < stripe.chunks_size(); ++index) {
    const uint64_t place = stripe.chunks(index).server_id();
    if (place == 0) continue;
    if (!places.insert(place).second)
      return {Violation::kSharedServer,
              fmt::format("stripe {} has two chunks on server {}", id.value, place)};
    const Server* server = server_with(ServerId{place});
    if (server == nullptr || server->in_doubt) continue;
    const auto number = static_cast<size_t>(server - servers_.data());
    const ChunkId chunk{id, static_cast<uint32_t>(index)};
    if (cluster_.store(number) == nullptr || server->chunks.contains(chunk) ||
        server->excused.contains(chunk))
      continue;
    return {Violation::kChunkGone, fmt::format("chunk {}:{} is not on {}, where metadata place it", id.value,
                                               index, SimulatedCluster::name(number))};
  }
  const size_t lost = losses(id, stripe, false);
  if (lost <= tolerated(stripe)) return {};
  if (endangered_.contains(id)) throw BeyondWhatCodesBear{};
  return {Violation::kStripeLost, fmt::format("stripe {} ({}) lost {} of {} chunks", id.value,
                                              stripe.policy(), lost, stripe.chunks_size())};
}

bool Inspector::may_lose(size_t server) const {
  for (size_t other = 0; other < servers_.size(); ++other)
    if (other != server && servers_[other].in_doubt) return false;
  const Server& it = servers_[server];
  for (const auto& [id, stripe] : stripes()) {
    size_t lost = losses(id, stripe, true);
    for (int index = 0; index < stripe.chunks_size(); ++index) {
      const ChunkId chunk{id, static_cast<uint32_t>(index)};
      if (it.id && ServerId{stripe.chunks(index).server_id()} == it.id && it.chunks.contains(chunk))
        lost += !it.in_doubt && !it.doubtful.contains(chunk);
    }
    if (lost > tolerated(stripe)) return false;
  }
  return true;
}

bool Inspector::may_lose(size_t server, ChunkId chunk) const {
  const auto all = stripes();
  const auto stripe = all.find(chunk.stripe);
  if (stripe == all.end() || !servers_[server].chunks.contains(chunk)) return false;
  // A server that is in doubt as a whole may be given chunks of any stripe before it is found out.
  for (const Server& other : servers_)
    if (other.in_doubt) return false;
  return losses(chunk.stripe, stripe->second, true) + 1 <= tolerated(stripe->second);
}

void Inspector::damaged(size_t server, ChunkId chunk) {
  servers_[server].doubtful.insert(chunk);
}

void Inspector::damaged(size_t server) {
  Server& it = servers_[server];
  it.in_doubt = true;
  it.started_again = false;
  it.doubtful.insert(it.chunks.begin(), it.chunks.end());
}

void Inspector::nothing_is_damaged() {
  for (Server& server : servers_) {
    server.doubtful.clear();
    server.in_doubt = false;
  }
}

void Inspector::emptied(size_t server) {
  Server& it = servers_[server];
  it.excused.insert(it.chunks.begin(), it.chunks.end());
  it.chunks.clear();
  it.doubtful.clear();
}

void Inspector::no_write_is_under_way() {
  see_servers();
  for (size_t number = 0; number < servers_.size(); ++number) {
    Server& server = servers_[number];
    if (!server.in_doubt || !server.started_again || cluster_.store(number) == nullptr) continue;
    // Whatever was lost while the server was in doubt is excused now; from here on nothing is.
    for (const ChunkId chunk : chunks_on(number))
      if (!server.chunks.contains(chunk)) server.excused.insert(chunk);
    server.in_doubt = false;
  }
}

std::vector<ChunkId> Inspector::chunks_on(size_t server) const {
  std::vector<ChunkId> chunks;
  for (const auto& [id, stripe] : stripes())
    for (int index = 0; index < stripe.chunks_size(); ++index)
      if (servers_[server].id && ServerId{stripe.chunks(index).server_id()} == servers_[server].id)
        chunks.push_back({id, static_cast<uint32_t>(index)});
  return chunks;
}

Status Inspector::whole() const {
  for (const auto& [id, stripe] : stripes()) {
    for (int index = 0; index < stripe.chunks_size(); ++index) {
      const proto::StoredChunk& chunk = stripe.chunks(index);
      if (chunk.server_id() == 0 && chunk.length() == 0) continue;
      const ChunkId name{id, static_cast<uint32_t>(index)};
      const Server* server = server_with(ServerId{chunk.server_id()});
      if (server == nullptr || !cluster_.running(static_cast<size_t>(server - servers_.data())))
        return {Code::kUnavailable, fmt::format("chunk {}:{} is on no running server", id.value, index)};
      if (!server->chunks.contains(name))
        return {Code::kUnavailable, fmt::format("chunk {}:{} is not where it should be", id.value, index)};
    }
  }
  return {};
}

Finding Inspector::spread() const {
  std::map<size_t, size_t> servers_in;
  for (size_t number = 0; number < servers_.size(); ++number)
    if (cluster_.running(number)) ++servers_in[number % cluster_.options().racks];
  for (const auto& [id, stripe] : stripes()) {
    std::map<size_t, size_t> chunks_in;
    // Places are chosen for empty chunks too, though nothing is written there.
    const auto chosen = static_cast<size_t>(stripe.chunks_size());
    for (const proto::StoredChunk& chunk : stripe.chunks()) {
      const Server* server = server_with(ServerId{chunk.server_id()});
      if (server == nullptr) continue;
      ++chunks_in[static_cast<size_t>(server - servers_.data()) % cluster_.options().racks];
    }
    size_t level =
        1;  // the most chunks of any rack when they are spread as evenly as the racks' servers allow
    const auto room = [&] {
      size_t chunks = 0;
      for (const auto& [rack, servers] : servers_in)
        chunks += std::min(servers, level);
      return chunks;
    };
    while (room() < chosen)
      ++level;
    for (const auto& [rack, chunks] : chunks_in)
      if (chunks > level)
        return {Violation::kUnevenRacks,
                fmt::format("stripe {} has {} of {} chunks in rack {}, where {} would do", id.value, chunks,
                            chosen, rack, level)};
  }
  return {};
}

bool Inspector::accounted_for(const Stripes& all, ServerId server, ChunkId chunk) const {
  const auto stripe = all.find(chunk.stripe);
  const bool placed = stripe != all.end() && static_cast<int>(chunk.index) < stripe->second.chunks_size() &&
                      ServerId{stripe->second.chunks(static_cast<int>(chunk.index)).server_id()} == server;
  return placed || metadata().contains(keys::quarantine(server, chunk));
}

Status Inspector::cleared() const {
  const auto all = stripes();
  for (size_t number = 0; number < servers_.size(); ++number) {
    const Server& server = servers_[number];
    if (!cluster_.running(number)) continue;
    for (const ChunkId chunk : server.chunks) {
      if (accounted_for(all, server.id, chunk) || !placed_.contains({server.id, chunk})) continue;
      return {Code::kUnavailable,
              fmt::format("{} still holds chunk {}:{}, which was placed there once and is not any more",
                          SimulatedCluster::name(number), chunk.stripe.value, chunk.index)};
    }
  }
  return {};
}

Status Inspector::tidy() const {
  for (const auto kind : {keys::Kind::kOrphan, keys::Kind::kUploadStripe}) {
    const keys::Range range = keys::all(kind);
    if (metadata().lower_bound(range.begin) != metadata().lower_bound(range.end))
      return {Code::kUnavailable, "files that are gone, or uploads that ended, are still in the metadata"};
  }
  const auto all = stripes();
  std::set<uint64_t> linked;
  for_each_of(metadata(), keys::Kind::kEntry, [&](const std::string&, const std::string& value) {
    linked.insert(parsed<proto::StoredDirectoryEntry>(value).inode());
  });
  std::set<uint64_t> contents;
  for_each_of(metadata(), keys::Kind::kInode, [&](const std::string& key, const std::string& value) {
    const uint64_t id = keys::first_id(key), content = parsed<proto::StoredInode>(value).content();
    // What no directory has nobody can read or remove.
    if (linked.contains(id)) contents.insert(content != 0 ? content : id);
  });
  std::set<StripeId> wanted;
  for_each_of(metadata(), keys::Kind::kExtent, [&](const std::string& key, const std::string& value) {
    if (contents.contains(keys::first_id(key)))
      wanted.insert(StripeId{parsed<proto::StoredExtent>(value).stripe_id()});
  });
  for (const auto& [id, stripe] : all)
    if (!wanted.contains(id))
      return {Code::kUnavailable, fmt::format("stripe {} belongs to no file", id.value)};
  for (size_t number = 0; number < servers_.size(); ++number) {
    const Server& server = servers_[number];
    if (!cluster_.running(number)) continue;
    for (const ChunkId chunk : server.chunks) {
      if (accounted_for(all, server.id, chunk)) continue;
      return {Code::kUnavailable,
              fmt::format("{} holds chunk {}:{}, which nothing places there", SimulatedCluster::name(number),
                          chunk.stripe.value, chunk.index)};
    }
  }
  return {};
}

}  // namespace kintsugi::simulation
