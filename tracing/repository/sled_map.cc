#include "tracing/repository/sled_map.h"

#include <cstring>

#include <fmt/format.h>

namespace kintsugi::tracing {
namespace {

/// An entry of the section xray_instr_map. Both addresses are relative to where they themselves stand.
struct MapEntry {
  int64_t address, function;
  uint8_t kind, always, version, unused[13];
};
static_assert(sizeof(MapEntry) == 32);
constexpr uint8_t kRelativeVersion = 2;

/// An entry of the section xray_fn_idx: the sleds of one function, relative to where `begin` stands.
struct IndexEntry {
  int64_t begin;
  uint64_t count;
};
static_assert(sizeof(IndexEntry) == 16);

Status bad_map(uint64_t function, std::string_view what) {
  return {Code::kCorrupt, fmt::format("the sled map: function {} {}", function, what)};
}

template <class T>
T entry_of(std::span<const std::byte> table, uint64_t index) {
  T entry;
  std::memcpy(&entry, table.data() + index * sizeof(T), sizeof(T));
  return entry;
}

}  // namespace

Result<SledMap> read_sleds(const ElfImage& image) {
  const auto map = image.section("xray_instr_map"), index = image.section("xray_fn_idx");
  if (!map || !index || map->bytes.empty())
    return Status{Code::kNotSupported,
                  "it was built without sleds (KINTSUGI_SLEDS): its functions cannot be traced"};
  SledMap found;
  for (uint64_t i = 0; i < index->bytes.size() / sizeof(IndexEntry); ++i) {
    const auto of_function = entry_of<IndexEntry>(index->bytes, i);
    const uint64_t begin = index->address + i * sizeof(IndexEntry) + static_cast<uint64_t>(of_function.begin);
    const uint64_t first = (begin - map->address) / sizeof(MapEntry);
    const uint64_t all = map->bytes.size() / sizeof(MapEntry);
    if (begin < map->address || (begin - map->address) % sizeof(MapEntry) != 0 || of_function.count == 0 ||
        first > all || of_function.count > all - first)
      return bad_map(i + 1, "has no sleds");
    SleddedFunction function{.first_sled = static_cast<uint32_t>(found.sleds.size())};
    for (uint64_t each = first; each < first + of_function.count; ++each) {
      const auto entry = entry_of<MapEntry>(map->bytes, each);
      const uint64_t at = map->address + each * sizeof(MapEntry);
      if (entry.version != kRelativeVersion) return bad_map(i + 1, "has a sled of an unknown format");
      const uint64_t address = at + static_cast<uint64_t>(entry.address);
      function.address = at + offsetof(MapEntry, function) + static_cast<uint64_t>(entry.function);
      // Sleds of other kinds (events of the program's own) are left alone.
      if (entry.kind <= static_cast<uint8_t>(SledKind::kEntryWithArguments))
        found.sleds.push_back({address, static_cast<SledKind>(entry.kind)});
    }
    function.sleds = static_cast<uint32_t>(found.sleds.size()) - function.first_sled;
    found.functions.push_back(function);
  }
  return found;
}

}  // namespace kintsugi::tracing
