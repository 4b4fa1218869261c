#include "tracing/repository/elf_image.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kintsugi::tracing {
namespace {

using Bytes = std::span<const std::byte>;

Status not_a_binary(std::string_view what) {
  return {Code::kCorrupt, fmt::format("no binary for x86-64: {}", what)};
}

/// None: there are not so many bytes.
std::optional<Bytes> part(Bytes of, uint64_t offset, uint64_t size) {
  if (offset > of.size() || size > of.size() - offset) return std::nullopt;
  return of.subspan(offset, size);
}

/// The text that begins at an offset of a table of names; empty: there is none.
std::string_view text_at(Bytes table, uint64_t offset) {
  if (offset >= table.size()) return {};
  const char* const text = reinterpret_cast<const char*>(table.data()) + offset;
  const size_t length = ::strnlen(text, table.size() - offset);
  return length == table.size() - offset ? std::string_view() : std::string_view(text, length);
}

}  // namespace

Result<ElfImage> ElfImage::parse(Bytes file) {
  Elf64_Ehdr header;
  if (file.size() < sizeof(header)) return not_a_binary("it is too short");
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != EM_X86_64)
    return not_a_binary("it begins otherwise");
  const auto table = part(file, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  if (!table || header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum)
    return not_a_binary("it has no table of sections");
  std::vector<Elf64_Shdr> headers(header.e_shnum);
  std::memcpy(headers.data(), table->data(), table->size());
  const auto names = part(file, headers[header.e_shstrndx].sh_offset, headers[header.e_shstrndx].sh_size);
  if (!names) return not_a_binary("the names of its sections are not there");
  ElfImage image;
  for (const Elf64_Shdr& each : headers) {
    Section section{text_at(*names, each.sh_name), each.sh_type, each.sh_addr, {}};
    if (each.sh_type != SHT_NOBITS && each.sh_type != SHT_NULL) {
      const auto bytes = part(file, each.sh_offset, each.sh_size);
      if (!bytes) return not_a_binary("a section is not there");
      section.bytes = *bytes;
    }
    image.sections_.push_back(section);
    image.links_.push_back(each.sh_link);
  }
  return image;
}

std::optional<ElfImage::Section> ElfImage::section(std::string_view name) const {
  for (const Section& each : sections_)
    if (each.name == name) return each;
  return std::nullopt;
}

std::string ElfImage::build_id() const {
  const auto note = section(".note.gnu.build-id");
  Elf64_Nhdr header;
  if (!note || note->bytes.size() < sizeof(header)) return {};
  std::memcpy(&header, note->bytes.data(), sizeof(header));
  const auto id =
      part(note->bytes, sizeof(header) + (uint64_t{header.n_namesz} + 3) / 4 * 4, header.n_descsz);
  return id ? std::string(reinterpret_cast<const char*>(id->data()), id->size()) : std::string();
}

Bytes ElfImage::linked_bytes(size_t section) const {
  return links_[section] < sections_.size() ? sections_[links_[section]].bytes : Bytes();
}

std::vector<ElfImage::Symbol> ElfImage::functions() const {
  std::vector<Symbol> found;
  for (size_t i = 0; i < sections_.size(); ++i) {
    if (sections_[i].type != SHT_SYMTAB) continue;
    const Bytes names = linked_bytes(i);
    for (Bytes left = sections_[i].bytes; left.size() >= sizeof(Elf64_Sym);
         left = left.subspan(sizeof(Elf64_Sym))) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, left.data(), sizeof(symbol));
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value != 0)
        found.push_back({symbol.st_value, symbol.st_size, text_at(names, symbol.st_name)});
    }
  }
  return found;
}

std::vector<uint64_t> ElfImage::unwound_functions() const {
  // Version 1; a reference to .eh_frame of four bytes, a number of four bytes; of each function its distance from this section, and a
  // reference to its entry (Linux Standard Base, 10.6.2).
  constexpr std::array<uint8_t, 4> kForm{1, 0x1b, 0x03, 0x3b};
  constexpr size_t kNumberAt = 8, kTableAt = 12, kEntryBytes = 8;
  std::vector<uint64_t> found;
  const auto table = section(".eh_frame_hdr");
  if (!table || table->bytes.size() < kTableAt ||
      std::memcmp(table->bytes.data(), kForm.data(), kForm.size()) != 0)
    return found;
  uint32_t number = 0;
  std::memcpy(&number, table->bytes.data() + kNumberAt, sizeof(number));
  Bytes left = table->bytes.subspan(kTableAt);
  for (uint32_t i = 0; i < number && left.size() >= kEntryBytes; ++i, left = left.subspan(kEntryBytes)) {
    int32_t distance = 0;
    std::memcpy(&distance, left.data(), sizeof(distance));
    found.push_back(table->address + static_cast<uint64_t>(int64_t{distance}));
  }
  return found;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return status_from_errno(errno, path);
  struct stat found{};
  void* at = MAP_FAILED;
  errno = EINVAL;
  if (::fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0)
    at = ::mmap(nullptr, static_cast<size_t>(found.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  ::close(file);
  if (at == MAP_FAILED) return status_from_errno(error, path);
  return MappedFile({static_cast<const std::byte*>(at), static_cast<size_t>(found.st_size)});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace kintsugi::tracing
