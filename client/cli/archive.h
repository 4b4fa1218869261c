/// A .tar.gz that is written file by file, for people who help: what is secret never gets into it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::cli {

/// Takes secrets out of texts: those that it was told, and whatever looks like one: private keys in PEM, 64 hexadecimal
/// digits in a row or more, and passwords in addresses (https://user:password@host).
class Redaction {
 public:
  /// Shorter ones are left alone: every text would be full of them.
  static constexpr size_t kShortest = 8;

  /// `secret` is a whole secret, in the form in which it might stand in a text.
  void learn(std::string secret);
  std::string without_secrets(std::string text) const;

 private:
  std::vector<std::string> secrets_;
};

class Archive {
 public:
  /// Makes the file, readable for its owner only. kAlreadyExists keeps what is there. All names begin with `root`.
  static Result<Archive> create(const std::string& path, std::string root);
  Archive(Archive&&) noexcept;
  /// An archive that was not finished is removed.
  ~Archive();

  /// A file of the archive. REQUIRES: `name` has at most 90 bytes, `root` included.
  Status add(const std::string& name, std::string_view contents);
  /// Ends the archive: it is whole then.
  Status finish();

 private:
  struct State;
  explicit Archive(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kintsugi::cli
