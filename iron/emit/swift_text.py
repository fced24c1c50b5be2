"""The parts of the Swift host that are the same for every manifest."""

from __future__ import annotations

from typing import Final

HEAD: Final = """// Launches of the kernels in ../manifest.json, written by `iron emit`.
//
// Every function checks its arguments first and throws an IronError before anything is encoded.
// Outputs must not overlap inputs.

import Metal

public enum IronError: Error {
  /// A requirement of the kernel does not hold for these sizes.
  case requirement(String)
  /// An argument is missing, negative or laid out wrongly.
  case argument(String)
}

/// A tensor in a buffer: the byte offset of its first element, and the elements between neighbours
/// along each axis; without strides it is contiguous in the order of its axes.
public struct IronTensor {
  public var buffer: MTLBuffer?
  public var offset: Int
  public var strides: [Int64]?

  public init(_ buffer: MTLBuffer?, offset: Int = 0, strides: [Int64]? = nil) {
    self.buffer = buffer
    self.offset = offset
    self.strides = strides
  }

  func layOut(_ shape: [Int], contiguous: Bool, _ name: String) throws -> [Int64] {
    var found = strides ?? []
    if strides == nil {
      var elements: Int64 = 1
      for size in shape.reversed() {
        found.insert(elements, at: 0)
        elements *= Int64(size)
      }
    }
    guard found.count == shape.count else {
      throw IronError.argument("\\(name) needs \\(shape.count) strides")
    }
    let empty = shape.contains(0)
    guard empty || buffer != nil else { throw IronError.argument("\\(name) has no buffer") }
    if contiguous, !empty, let size = shape.last, size > 1, found.last != 1 {
      throw IronError.argument("\\(name) is not contiguous along its last axis")
    }
    return found
  }
}

/// The scalars, dims, strides and extents of a launch, as the kernel's structure lays them out.
private struct IronValues {
  private var bytes: [UInt8]

  init(bytes count: Int) {
    bytes = [UInt8](repeating: 0, count: count)
  }

  mutating func put<Value>(_ value: Value, at offset: Int) {
    withUnsafeBytes(of: value) { raw in
      bytes.replaceSubrange(offset..<(offset + raw.count), with: raw)
    }
  }

  func set(_ encoder: MTLComputeCommandEncoder, index: Int) {
    encoder.setBytes(bytes, length: bytes.count, index: index)
  }
}

// Integers wrap; a quotient rounds towards minus infinity and is 0 for a divisor of 0.

private func quotient<T: FixedWidthInteger>(_ a: T, _ b: T) -> T {
  if b == 0 { return 0 }
  let (whole, rest) = (a.dividedReportingOverflow(by: b).partialValue,
                       a.remainderReportingOverflow(dividingBy: b).partialValue)
  return rest != 0 && (rest < 0) != (b < 0) ? whole &- 1 : whole
}

private func modulo<T: FixedWidthInteger>(_ a: T, _ b: T) -> T {
  if b == 0 { return 0 }
  let rest = a.remainderReportingOverflow(dividingBy: b).partialValue
  return rest != 0 && (rest < 0) != (b < 0) ? rest &+ b : rest
}
"""
