#include "tracing/agent/image.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <limits>
#include <mutex>
#include <unordered_map>

#include <link.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracing/agent/payload.h"
#include "tracing/repository/elf_image.h"
#include "tracing/repository/names.h"
#include "tracing/repository/sled_map.h"

namespace kintsugi::tracing {
namespace {

constexpr const char* kSelf = "/proc/self/exe";
constexpr uint64_t kPage = 4096;
constexpr uint64_t kStubBytes = 16;
/// One for each way in which a function is entered or left.
constexpr std::array kStubKinds{SledKind::kEntry, SledKind::kExit, SledKind::kTail};
/// Stubs lie as near to the image as a call reaches, in both directions.
constexpr uint64_t kReach = uint64_t{1} << 30, kSearchStep = uint64_t{1} << 21;

/// Where the binary lies in memory, and which pages its code has.
struct Placed {
  uint64_t base = 0, text = 0, text_bytes = 0;
};

Placed place_of_binary() {
  Placed placed;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        Placed& found = *static_cast<Placed*>(into);
        found.base = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
          const uint64_t begin = (found.base + part.p_vaddr) / kPage * kPage;
          const uint64_t end = (found.base + part.p_vaddr + part.p_memsz + kPage - 1) / kPage * kPage;
          if (found.text == 0) found.text = begin;
          found.text_bytes = end - found.text;
        }
        return 1;  // ends the iteration: the first object is the binary itself
      },
      &placed);
  return placed;
}

/// Memory below the image that a call in it reaches; null: there is none.
std::byte* memory_near(uint64_t text, uint64_t bytes) {
  for (uint64_t below = kSearchStep; below + bytes < kReach && below + bytes < text; below += kSearchStep) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address is chosen here
    void* const wanted = reinterpret_cast<void*>((text - below - bytes) / kPage * kPage);
    void* const got = ::mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == wanted) return static_cast<std::byte*>(got);
    if (got != MAP_FAILED) ::munmap(got, bytes);
  }
  return nullptr;
}

uint64_t trampoline_of(SledKind kind) {
  if (kind == SledKind::kExit) return reinterpret_cast<uint64_t>(&kintsugi_trace_exit);
  if (kind == SledKind::kTail) return reinterpret_cast<uint64_t>(&kintsugi_trace_tail);
  return reinterpret_cast<uint64_t>(&kintsugi_trace_entry);
}

/// "push $function; jmp trampoline".
void write_stub(std::byte* at, uint32_t function, SledKind kind) {
  constexpr uint8_t kPush = 0x68, kJump = 0xe9, kTrap = 0xcc;
  constexpr uint64_t kUsed = 10;
  std::memset(at, kTrap, kStubBytes);
  at[0] = std::byte{kPush};
  std::memcpy(at + 1, &function, sizeof(function));
  at[5] = std::byte{kJump};
  const auto distance = static_cast<int32_t>(trampoline_of(kind) - (reinterpret_cast<uint64_t>(at) + kUsed));
  std::memcpy(at + 6, &distance, sizeof(distance));
}

size_t stub_of(uint32_t function, SledKind kind) {
  const size_t way = kind == SledKind::kExit ? 1 : kind == SledKind::kTail ? 2 : 0;
  return (function - 1) * kStubKinds.size() + way;
}

std::vector<FunctionStart> starts_of(const ElfImage& image, const SledMap& map, const Placed& placed) {
  std::vector<FunctionStart> starts;
  starts.reserve(map.functions.size());
  std::vector<uint64_t> all = image.unwound_functions();
  for (size_t i = 0; i < map.functions.size(); ++i) {
    starts.push_back({placed.base + map.functions[i].address, 0, static_cast<uint32_t>(i + 1)});
    all.push_back(map.functions[i].address);
  }
  std::ranges::sort(starts, {}, &FunctionStart::address);
  std::ranges::sort(all);
  for (FunctionStart& start : starts) {
    const auto next = std::ranges::upper_bound(all, start.address - placed.base);
    start.end = next != all.end() ? placed.base + *next : placed.text + placed.text_bytes;
  }
  return starts;
}

}  // namespace

Result<const Image*> Image::of_process() {
  static std::mutex mutex;
  static const Image* image = nullptr;
  const std::lock_guard lock(mutex);
  if (image != nullptr) return image;
  std::unique_ptr<Image> made(new Image());
  KINTSUGI_TRY(made->read().with_context("this process cannot be traced"));
  return image = made.release();
}

Status Image::read() {
  if (::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) != 0)
    return {Code::kNotSupported, "the kernel has no membarrier that code can be changed with"};
  KINTSUGI_ASSIGN(const MappedFile file, MappedFile::open(kSelf));
  KINTSUGI_ASSIGN(const ElfImage image, ElfImage::parse(file.bytes()));
  KINTSUGI_ASSIGN(const SledMap map, read_sleds(image));
  std::array<char, PATH_MAX> path{};
  if (const ssize_t length = ::readlink(kSelf, path.data(), path.size()); length > 0)
    path_.assign(path.data(), static_cast<size_t>(length));
  build_id_ = image.build_id();
  calls_ = find_calls(image, map);
  const Placed placed = place_of_binary();
  starts_ = starts_of(image, map, placed);
  KINTSUGI_ASSIGN(const std::vector<std::string> names, mangled_names(image, map));
  for (const std::string& mangled : names)
    arguments_.push_back(recorded_arguments(mangled));
  sleds_.text = placed.text;
  sleds_.text_bytes = placed.text_bytes;
  return make_stubs(map, placed.base);
}

Status Image::make_stubs(const SledMap& map, uint64_t base) {
  const uint64_t bytes = (map.functions.size() * kStubKinds.size() * kStubBytes + kPage - 1) / kPage * kPage;
  std::byte* const stubs = memory_near(sleds_.text, bytes);
  if (stubs == nullptr) return {Code::kOutOfMemory, "there is no memory near its code"};
  for (uint32_t function = 1; function <= map.functions.size(); ++function)
    for (const SledKind kind : kStubKinds)
      write_stub(stubs + stub_of(function, kind) * kStubBytes, function, kind);
  if (::mprotect(stubs, bytes, PROT_READ | PROT_EXEC) != 0) {
    const Status refused = status_from_errno(errno, "memory for code");
    ::munmap(stubs, bytes);
    return refused;
  }
  for (uint32_t function = 1; function <= map.functions.size(); ++function) {
    const SleddedFunction& of = map.functions[function - 1];
    first_.push_back(static_cast<uint32_t>(at_.size()));
    for (const Sled& sled : std::span(map.sleds).subspan(of.first_sled, of.sleds)) {
      ImageSleds::At at{.address = base + sled.address, .is_exit = sled.kind == SledKind::kExit};
      const uint64_t stub = reinterpret_cast<uint64_t>(stubs) + stub_of(function, sled.kind) * kStubBytes;
      const auto distance = static_cast<int64_t>(stub - (at.address + kSledBytes));
      const bool in_text =
          at.address >= sleds_.text && at.address + kSledBytes <= sleds_.text + sleds_.text_bytes;
      if (in_text && at.address % 2 == 0 && distance >= std::numeric_limits<int32_t>::min())
        at.to_stub = static_cast<int32_t>(distance);
      at_.push_back(at);
    }
  }
  first_.push_back(static_cast<uint32_t>(at_.size()));
  sleds_.functions = static_cast<uint32_t>(map.functions.size());
  sleds_.first = first_.data();
  sleds_.sleds = at_.data();
  return {};
}

Result<std::vector<uint32_t>> Image::functions_named(const std::string& name) const {
  KINTSUGI_ASSIGN(const MappedFile file, MappedFile::open(kSelf));
  KINTSUGI_ASSIGN(const ElfImage image, ElfImage::parse(file.bytes()));
  KINTSUGI_ASSIGN(const SledMap map, read_sleds(image));
  KINTSUGI_ASSIGN(const std::vector<std::string> names, mangled_names(image, map));
  std::vector<uint32_t> found = tracing::functions_named(names, name);
  if (found.empty()) return Status{Code::kNotFound, "no function that can be traced is called " + name};
  return found;
}

Result<std::vector<uint8_t>> Image::recorded_values(std::span<const RecordedValues> more) const {
  std::vector<uint8_t> values = arguments_;
  if (more.empty()) return values;
  std::unordered_map<std::string_view, uint8_t> wanted;
  for (const RecordedValues& each : more)
    wanted[each.function] |= each.places;
  KINTSUGI_ASSIGN(const MappedFile file, MappedFile::open(kSelf));
  KINTSUGI_ASSIGN(const ElfImage image, ElfImage::parse(file.bytes()));
  KINTSUGI_ASSIGN(const SledMap map, read_sleds(image));
  KINTSUGI_ASSIGN(const std::vector<std::string> names, mangled_names(image, map));
  for (size_t i = 0; i < names.size(); ++i)
    if (const auto found = wanted.find(short_name(names[i])); found != wanted.end())
      values[i] |= found->second;
  return values;
}

Result<uint32_t> Image::function_at(const void* code) const {
  const auto address = reinterpret_cast<uint64_t>(code);
  const auto found = std::ranges::lower_bound(starts_, address, {}, &FunctionStart::address);
  if (found == starts_.end() || found->address != address)
    return Status{Code::kNotFound, "what begins the recording was built without room for tracing"};
  return found->function;
}

}  // namespace kintsugi::tracing
