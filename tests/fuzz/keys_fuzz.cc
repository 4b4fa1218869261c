// Keys of the metadata: ids and names from the wire, in an order that scans rely on.
#include "metaserver/schema/keys.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using namespace metaserver;

/// Two of everything, to be compared. The name of the first entry follows, then that of the second.
struct Ids {
  uint64_t first[2] = {1, 2};
  uint64_t second[2] = {3, 3};
  uint8_t index[2] = {0, 8};
  uint16_t name_bytes = 4;
};

std::string bytes_of(const Ids& ids, std::string_view names) {
  return std::string(reinterpret_cast<const char*>(&ids), sizeof ids).append(names);
}

std::vector<std::string> seeds() {
  return {bytes_of({}, "usersusers2"), bytes_of({.first = {5, 5}}, "a.txtA.txt"),
          bytes_of({.first = {UINT64_MAX, UINT64_MAX - 1}, .index = {255, 0}}, "\xff\xff\xff\xff\xff"),
          bytes_of({.first = {0xff, 0x100}, .second = {0, UINT64_MAX}, .name_bytes = 0}, "x")};
}

bool within(const keys::Range& range, std::string_view key) {
  return range.begin <= key && key < range.end;
}

void check_chunks(const Ids& ids) {
  const ServerId servers[2] = {ServerId{ids.first[0]}, ServerId{ids.first[1]}};
  const ChunkId chunks[2] = {{StripeId{ids.second[0]}, ids.index[0]},
                             {StripeId{ids.second[1]}, ids.index[1]}};
  const std::string a = keys::server_chunk(servers[0], chunks[0]),
                    b = keys::server_chunk(servers[1], chunks[1]);
  require(keys::chunk_of(a) == chunks[0] && keys::first_id(a) == servers[0].value,
          "a key says what it is of");
  require(keys::chunk_of(keys::garbage(servers[0], chunks[0])) == chunks[0], "a key says what it is of");
  require((a < b) == (std::tie(servers[0], chunks[0]) < std::tie(servers[1], chunks[1])),
          "keys are ordered as their ids");
  const keys::Range range = keys::all(keys::Kind::kServerChunk, ids.first[0]);
  require(within(range, a), "a server's range holds its chunks");
  require(within(range, b) == (servers[0] == servers[1]), "a server's range holds no other's chunks");
  require(!within(range, keys::garbage(servers[0], chunks[0])), "a range holds keys of one kind");
}

void check_ids(const Ids& ids) {
  using Make = std::string (*)(uint64_t);
  const std::pair<keys::Kind, Make> makers[] = {
      {keys::Kind::kInode, [](uint64_t id) { return keys::inode(InodeId{id}); }},
      {keys::Kind::kOrphan, [](uint64_t id) { return keys::orphan(InodeId{id}); }},
      {keys::Kind::kStripe, [](uint64_t id) { return keys::stripe(StripeId{id}); }},
      {keys::Kind::kServer, [](uint64_t id) { return keys::server(ServerId{id}); }},
      {keys::Kind::kUpload, [](uint64_t id) { return keys::upload(UploadId{id}); }},
  };
  for (const auto& [kind, make] : makers) {
    const std::string a = make(ids.first[0]), b = make(ids.first[1]);
    require(keys::first_id(a) == ids.first[0], "a key says what it is of");
    require((a < b) == (ids.first[0] < ids.first[1]), "keys are ordered as their ids");
    for (const auto& [other, unused] : makers)
      require(within(keys::all(other), a) == (other == kind), "a kind's range holds its keys and no others");
  }
  const std::string sealed = keys::upload_stripe(UploadId{ids.first[0]}, StripeId{ids.second[0]});
  require(keys::first_id(sealed) == ids.first[0], "a key says what it is of");
  require(keys::stripe_of_upload(sealed) == StripeId{ids.second[0]}, "a key says what it is of");
}

void check_entries(const Ids& ids, std::string_view name, std::string_view other) {
  const InodeId parents[2] = {InodeId{ids.first[0]}, InodeId{ids.first[1]}};
  const std::string a = keys::entry(parents[0], name), b = keys::entry(parents[1], other);
  require(keys::name_of_entry(a) == name && keys::first_id(a) == parents[0].value,
          "a key says what it is of");
  require((a < b) == (std::tie(parents[0], name) < std::tie(parents[1], other)),
          "entries are ordered by name");
  require(within(keys::entries(parents[0]), a), "a folder's range holds its entries");
  require(within(keys::entries(parents[0]), b) == (parents[0] == parents[1]),
          "a folder's range holds no other's entries");
  require(within(keys::entries(parents[0], other), a) == (other.empty() || name > other),
          "a page of a folder begins behind its name");
  require(keys::text_of(keys::counter(name)) == name && keys::text_of(keys::policy(name)) == name,
          "a key says what it is of");
}

void check(std::string_view input) {
  Input in(input);
  const auto ids = in.number<Ids>();
  std::string name(in.text(ids.name_bytes)), other(in.rest());
  // Names hold no NUL.
  std::replace(name.begin(), name.end(), '\0', '0');
  std::replace(other.begin(), other.end(), '\0', '0');
  check_chunks(ids);
  check_ids(ids);
  check_entries(ids, name, other);
}

const Registration registration{{"keys", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
