// Launches of the kernels in ../manifest.json, written by `iron emit`.
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
      throw IronError.argument("\(name) needs \(shape.count) strides")
    }
    let empty = shape.contains(0)
    guard empty || buffer != nil else { throw IronError.argument("\(name) has no buffer") }
    if contiguous, !empty, let size = shape.last, size > 1, found.last != 1 {
      throw IronError.argument("\(name) is not contiguous along its last axis")
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

public enum IronKernels {
  /// One thread per element of y. x may be reversed, transposed, sliced with a step or broadcast.
  /// x: f32[shape_0, shape_1, shape_2], read
  /// y: f32[shape_0, shape_1, shape_2], written
  public static let copy_f32_rank3_symbol = "iron_copy_f32_rank3_f802192a"

  public static func copy_f32_rank3(
    _ encoder: MTLComputeCommandEncoder,
    _ pipeline: MTLComputePipelineState,
    x: IronTensor,
    y: IronTensor,
    shape_0: Int32,
    shape_1: Int32,
    shape_2: Int32
  ) throws {
    guard shape_0 >= 0 else { throw IronError.argument("copy: dim shape_0 is negative") }
    guard shape_1 >= 0 else { throw IronError.argument("copy: dim shape_1 is negative") }
    guard shape_2 >= 0 else { throw IronError.argument("copy: dim shape_2 is negative") }
    guard Int64(truncatingIfNeeded: shape_0) &* Int64(truncatingIfNeeded: shape_1) < 2147483648,
        Int64(truncatingIfNeeded: shape_0) &* Int64(truncatingIfNeeded: shape_1) &* Int64(truncatingIfNeeded: shape_2) < 2147483648 else {
      throw IronError.requirement("copy: `x` must have fewer than 2^31 elements ((i64(shape_0) * i64(shape_1) < 2147483648) & (i64(shape_0) * i64(shape_1) * i64(shape_2) < 2147483648))")
    }
    let strides0 = try x.layOut(
      [Int(shape_0), Int(shape_1), Int(shape_2)], contiguous: false, "copy: `x`")
    let strides1 = try y.layOut(
      [Int(shape_0), Int(shape_1), Int(shape_2)], contiguous: true, "copy: `y`")
    let extents = [Int(quotient(shape_0 &* shape_1 &* shape_2, 256) &+ (modulo(shape_0 &* shape_1 &* shape_2, 256) != 0 ? 1 : 0))].map { max(0, $0) }
    let groups = extents.reduce(1, *)
    if groups == 0 { return }
    encoder.setComputePipelineState(pipeline)
    encoder.setBuffer(x.buffer, offset: x.offset, index: 0)
    encoder.setBuffer(y.buffer, offset: y.offset, index: 1)
    var values = IronValues(bytes: 56)
    values.put(shape_0, at: 0)
    values.put(shape_1, at: 4)
    values.put(shape_2, at: 8)
    values.put(strides0[0], at: 16)
    values.put(strides0[1], at: 24)
    values.put(strides0[2], at: 32)
    values.put(strides1[0], at: 40)
    values.put(strides1[1], at: 48)
    values.set(encoder, index: 2)
    encoder.dispatchThreadgroups(
      MTLSize(width: groups, height: 1, depth: 1),
      threadsPerThreadgroup: MTLSize(width: 256, height: 1, depth: 1))
  }

  /// One group per row. A residual is added to the weighted result (y = residual + norm(x) * w).
  /// x: f16[R, N], read
  /// w: f16[N], read
  /// y: f16[R, N], written
  public static let rms_norm_f16_vec4_with_w_symbol = "iron_rms_norm_f16_vec4_with_w_688a653a"

  public static func rms_norm_f16_vec4_with_w(
    _ encoder: MTLComputeCommandEncoder,
    _ pipeline: MTLComputePipelineState,
    x: IronTensor,
    w: IronTensor,
    y: IronTensor,
    eps: Float,
    R: Int32,
    N: Int32
  ) throws {
    guard R >= 0 else { throw IronError.argument("rms_norm: dim R is negative") }
    guard N >= 0 else { throw IronError.argument("rms_norm: dim N is negative") }
    guard modulo(N, 4) == 0 else {
      throw IronError.requirement("rms_norm: the row length N must be a multiple of VEC (N % 4 == 0)")
    }
    let strides0 = try x.layOut(
      [Int(R), Int(N)], contiguous: true, "rms_norm: `x`")
    _ = try w.layOut(
      [Int(N)], contiguous: true, "rms_norm: `w`")
    let strides2 = try y.layOut(
      [Int(R), Int(N)], contiguous: true, "rms_norm: `y`")
    let extents = [Int(R)].map { max(0, $0) }
    let groups = extents.reduce(1, *)
    if groups == 0 { return }
    encoder.setComputePipelineState(pipeline)
    encoder.setBuffer(x.buffer, offset: x.offset, index: 0)
    encoder.setBuffer(w.buffer, offset: w.offset, index: 1)
    encoder.setBuffer(y.buffer, offset: y.offset, index: 2)
    var values = IronValues(bytes: 32)
    values.put(eps, at: 0)
    values.put(R, at: 4)
    values.put(N, at: 8)
    values.put(strides0[0], at: 16)
    values.put(strides2[0], at: 24)
    values.set(encoder, index: 3)
    encoder.dispatchThreadgroups(
      MTLSize(width: groups, height: 1, depth: 1),
      threadsPerThreadgroup: MTLSize(width: 256, height: 1, depth: 1))
  }

  /// One group per row; sums are f32. `LOG` gives log(y).
  /// x: f32[R, N], read
  /// y: f32[R, N], written
  public static let softmax_f32_no_log_vec1_symbol = "iron_softmax_f32_no_log_vec1_1a470573"

  public static func softmax_f32_no_log_vec1(
    _ encoder: MTLComputeCommandEncoder,
    _ pipeline: MTLComputePipelineState,
    x: IronTensor,
    y: IronTensor,
    scale: Float,
    R: Int32,
    N: Int32
  ) throws {
    guard R >= 0 else { throw IronError.argument("softmax: dim R is negative") }
    guard N >= 0 else { throw IronError.argument("softmax: dim N is negative") }
    guard modulo(N, 1) == 0 else {
      throw IronError.requirement("softmax: the row length N must be a multiple of VEC (N % 1 == 0)")
    }
    let strides0 = try x.layOut(
      [Int(R), Int(N)], contiguous: true, "softmax: `x`")
    let strides1 = try y.layOut(
      [Int(R), Int(N)], contiguous: true, "softmax: `y`")
    let extents = [Int(R)].map { max(0, $0) }
    let groups = extents.reduce(1, *)
    if groups == 0 { return }
    encoder.setComputePipelineState(pipeline)
    encoder.setBuffer(x.buffer, offset: x.offset, index: 0)
    encoder.setBuffer(y.buffer, offset: y.offset, index: 1)
    var values = IronValues(bytes: 32)
    values.put(scale, at: 0)
    values.put(R, at: 4)
    values.put(N, at: 8)
    values.put(strides0[0], at: 16)
    values.put(strides1[0], at: 24)
    values.set(encoder, index: 2)
    encoder.dispatchThreadgroups(
      MTLSize(width: groups, height: 1, depth: 1),
      threadsPerThreadgroup: MTLSize(width: 256, height: 1, depth: 1))
  }
}
