/// A binary of this machine's format, as far as tracing needs it: sections by name, symbols of functions, the build id.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::tracing {

/// Addresses are those of the file: the process adds where it was loaded to.
class ElfImage {
 public:
  struct Section {
    std::string_view name;
    uint32_t type = 0;
    uint64_t address = 0;
    std::span<const std::byte> bytes;  ///< empty: it has none in the file
  };
  struct Symbol {
    uint64_t address = 0, size = 0;
    std::string_view name;  ///< mangled
  };

  /// kCorrupt: this is no binary for x86-64, or only a part of one.
  static Result<ElfImage> parse(std::span<const std::byte> file);

  const std::vector<Section>& sections() const { return sections_; }
  std::optional<Section> section(std::string_view name) const;
  std::string build_id() const;  ///< raw bytes; empty: it has none
  /// Of functions, as they come; none of a stripped binary.
  std::vector<Symbol> functions() const;
  /// Where functions begin, by the table that exceptions are unwound by (.eh_frame_hdr): stripped binaries have it, too.
  std::vector<uint64_t> unwound_functions() const;

 private:
  std::span<const std::byte> linked_bytes(size_t section) const;

  std::vector<Section> sections_;
  std::vector<uint32_t> links_;  ///< sh_link of each section
};

/// A file in memory while it lives.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace kintsugi::tracing
