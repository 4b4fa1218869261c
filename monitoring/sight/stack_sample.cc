#include "monitoring/sight/stack_sample.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <sys/stat.h>

namespace kintsugi::sight {

namespace {

constexpr int kMostFrames = 40;
constexpr int kOwnFrames = 2;  ///< frames of the handler, and of the kernel below it
constexpr size_t kMostSymbols = 1 << 20;

std::array<void*, kMostFrames> frames;
std::atomic<int> frame_count{-1};

/// Runs on the thread that is asked. After its first call, which loads the unwinder, backtrace() neither allocates nor
/// locks anything but the list of loaded libraries, which no daemon changes once it runs.
void take_sample(int) {
  const int error = errno;
  frame_count.store(backtrace(frames.data(), kMostFrames), std::memory_order_release);
  errno = error;
}

struct Binary {
  uintptr_t base = 0, end = 0;
  std::string id;
};

Binary find_binary() {
  Binary binary;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        Binary& found = *static_cast<Binary*>(into);
        found.base = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          if (part.p_type == PT_LOAD)
            found.end = std::max<uintptr_t>(found.end, found.base + part.p_vaddr + part.p_memsz);
          if (part.p_type != PT_NOTE) continue;
          const char* note = reinterpret_cast<const char*>(found.base + part.p_vaddr);
          for (const char* const end = note + part.p_memsz; note + sizeof(ElfW(Nhdr)) <= end;) {
            ElfW(Nhdr) header;
            std::memcpy(&header, note, sizeof(header));
            const char* const name = note + sizeof(header);
            const char* const body = name + (header.n_namesz + 3) / 4 * 4;
            if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
              found.id.assign(body, header.n_descsz);
            note = body + (header.n_descsz + 3) / 4 * 4;
          }
        }
        return 1;  // ends the iteration: the first object is the binary itself
      },
      &binary);
  return binary;
}

const Binary& binary() {
  static const Binary found = find_binary();
  return found;
}

struct Symbol {
  uint64_t offset, size;
  std::string name;
};

/// The functions of the running binary, by offset; none of a stripped one.
std::vector<Symbol> read_symbols() {
  std::vector<Symbol> symbols;
  std::ifstream file("/proc/self/exe", std::ios::binary);
  ElfW(Ehdr) header{};
  const auto read = [&](uint64_t offset, void* into, size_t bytes) {
    file.seekg(static_cast<std::streamoff>(offset));
    return bool(file.read(static_cast<char*>(into), static_cast<std::streamsize>(bytes)));
  };
  if (!read(0, &header, sizeof(header)) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return symbols;
  std::vector<ElfW(Shdr)> sections(header.e_shnum);
  if (sections.empty() || !read(header.e_shoff, sections.data(), sections.size() * sizeof(sections[0])))
    return symbols;
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const size_t count = section.sh_size / sizeof(ElfW(Sym));
    if (count > kMostSymbols) continue;
    std::vector<ElfW(Sym)> table(count);
    std::string names(sections[section.sh_link].sh_size, '\0');
    if (!read(section.sh_offset, table.data(), count * sizeof(table[0])) ||
        !read(sections[section.sh_link].sh_offset, names.data(), names.size()))
      continue;
    for (const ElfW(Sym) & symbol : table)
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value != 0 && symbol.st_name < names.size())
        symbols.push_back({symbol.st_value, symbol.st_size, names.c_str() + symbol.st_name});
  }
  std::sort(symbols.begin(), symbols.end(),
            [](const Symbol& a, const Symbol& b) { return a.offset < b.offset; });
  return symbols;
}

std::string readable(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && name != nullptr ? name.get() : mangled;
}

std::string name_of(const std::vector<Symbol>& symbols, uintptr_t address) {
  if (address >= binary().base && address < binary().end) {
    const uint64_t offset = address - binary().base;
    auto after =
        std::upper_bound(symbols.begin(), symbols.end(), offset,
                         [](uint64_t wanted, const Symbol& symbol) { return wanted < symbol.offset; });
    if (after == symbols.begin()) return {};
    const Symbol& symbol = *std::prev(after);
    return offset < symbol.offset + std::max<uint64_t>(symbol.size, 1) ? readable(symbol.name.c_str()) : "";
  }
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_sname == nullptr) return {};
  return readable(info.dli_sname);
}

}  // namespace

std::string build_id() {
  return binary().id;
}

uint64_t pid_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

StackSample sample_stack(pthread_t thread, Duration limit) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static const bool ready = [] {
    std::array<void*, 4> first;
    // Loads the unwinder before a signal needs it.
    (void)backtrace(first.data(), static_cast<int>(first.size()));
    struct sigaction action{};
    action.sa_handler = take_sample;
    action.sa_flags = SA_RESTART;
    return sigaction(SIGURG, &action, nullptr) == 0;
  }();
  StackSample sample;
  frame_count.store(-1, std::memory_order_relaxed);
  if (!ready || pthread_kill(thread, SIGURG) != 0) return sample;
  int count = -1;
  for (Duration waited{}; waited < limit; waited += 1ms) {
    count = frame_count.load(std::memory_order_acquire);
    if (count >= 0) break;
    std::this_thread::sleep_for(1ms);
  }
  static const std::vector<Symbol> symbols = read_symbols();
  for (int i = kOwnFrames; i < count; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(frames[i]);
    const bool own = address >= binary().base && address < binary().end;
    sample.offsets.push_back(own ? address - binary().base : address);
    // A return address stands behind its call, which may be the last instruction of the function.
    sample.symbols.push_back(name_of(symbols, i == kOwnFrames ? address : address - 1));
  }
  return sample;
}

}  // namespace kintsugi::sight
